"""Marked tests of a stranger's project, on a machine without a GPU. For try_traced.sh."""
import pytest
import torch


@pytest.mark.vramwise(peak="64MiB")
def test_small():
    x = torch.ones(1 << 20, device="cuda")
    assert (x @ x.view(-1, 1)).shape == (1,)


@pytest.mark.vramwise(peak="64MiB")
def test_large(vram):
    kept = torch.ones(1 << 26, device="cuda")
    assert kept.is_cuda


KEPT = []


@pytest.mark.vramwise(growth=0)
def test_leak():
    KEPT.append(torch.ones(1 << 20, device="cuda"))


def test_fixture(vram):
    assert vram.peak == 0
