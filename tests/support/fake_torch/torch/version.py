"""What torch.version says."""
import os

cuda = os.environ.get("FAKE_TORCH_CUDA", "13.0") or None
git_version = "0123456789abcdef"
