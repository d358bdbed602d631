"""torch.optim.optimizer: hooks that run after every optimizer's step."""
_hooks = []


def register_optimizer_step_post_hook(hook) -> None:
    _hooks.append(hook)


class Optimizer:
    def step(self) -> None:
        for hook in _hooks:
            hook(self, (), {})
