"""torch.utils.data.dataloader: batches from a function, in this process."""


class _BaseDataLoaderIter:
    """An iterator, as PyTorch has it."""

    def __init__(self, loader):
        self._num_workers = loader.num_workers
        self._pin_memory = loader.pin_memory
        self._batches = iter(loader.dataset)

    def __iter__(self):
        return self

    def __next__(self):
        """The next batch."""
        return self._next_data()


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def _next_data(self):
        return next(self._batches)


class DataLoader:
    """Anything iterable, as batches."""

    def __init__(self, dataset, num_workers=0, pin_memory=False):
        self.dataset, self.num_workers, self.pin_memory = dataset, num_workers, pin_memory

    def __iter__(self):
        return _SingleProcessDataLoaderIter(self)
