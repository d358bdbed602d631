"""What torch.version says."""
import os

hip = os.environ.get("FAKE_TORCH_HIP")
cuda = os.environ.get("FAKE_TORCH_CUDA", "" if hip else "13.0") or None
git_version = "0123456789abcdef"
