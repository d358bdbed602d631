"""lightning_script.py - a training script as users of Lightning write it; planned unchanged by
`vramwise plan --trace`, and measured by measure_programs.py."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning as pl
except ImportError:
    import pytorch_lightning as pl


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1),
                                 nn.BatchNorm2d(128), nn.ReLU(), nn.Flatten(), nn.Linear(128 * 16 * 16, 2048),
                                 nn.ReLU(), nn.Linear(2048, 10))

    def training_step(self, batch: list, index: int) -> torch.Tensor:
        images, labels = batch
        made = self.net(images)
        loss = F.cross_entropy(made, labels)
        self.log("loss", loss, prog_bar=True)
        self.log("accuracy", (made.argmax(1) == labels).float().mean())
        return loss

    def validation_step(self, batch: list, index: int) -> None:
        images, labels = batch
        self.log("val_loss", F.cross_entropy(self.net(images), labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-3)


def fit() -> None:
    data = TensorDataset(torch.randn(1024, 3, 64, 64), torch.randint(0, 10, (1024,)))
    trainer = pl.Trainer(max_steps=6, accelerator="gpu", devices=1, precision="bf16-mixed", logger=False,
                         enable_checkpointing=False, gradient_clip_val=1.0)
    trainer.fit(Classifier(), DataLoader(data, 256, shuffle=True, num_workers=2), DataLoader(data, 256))


if __name__ == "__main__":
    fit()
