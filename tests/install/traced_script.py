"""A training script as people have them; knows nothing of vramwise. For try_traced.sh."""
import argparse

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("--odd", action="store_true", help="use an operator that nobody has a fake for")
arguments = parser.parse_args()
if arguments.odd:
    library = torch.library.Library("mine", "DEF")
    library.define("odd(Tensor x) -> Tensor")
    library.impl("odd", lambda x: x, "CPU")
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torchvision.models.resnet18().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda", enabled=arguments.amp)
data = DataLoader(TensorDataset(torch.randn(32, 3, 64, 64), torch.randint(0, 1000, (32,))), batch_size=8,
                  shuffle=True, pin_memory=True, num_workers=1)
right = 0
for epoch in range(10):
    for images, labels in data:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        if arguments.odd:
            images = torch.ops.mine.odd(images)
        with torch.autocast("cuda", dtype=torch.float16, enabled=arguments.amp):
            out = model(images)
            loss = nn.functional.cross_entropy(out, labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        right += (out.argmax(1) == labels).sum().item()
print("right", right)
