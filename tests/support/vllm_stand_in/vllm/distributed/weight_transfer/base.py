"""Base class of weight transports."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar


@dataclass
class WeightTransferInitInfo:
    pass


@dataclass
class WeightTransferUpdateInfo:
    pass


Init = TypeVar("Init", bound=WeightTransferInitInfo)
Update = TypeVar("Update", bound=WeightTransferUpdateInfo)


class WeightTransferEngine(Generic[Init, Update]):
    def __init__(self, config: Any, vllm_config: Any, device: Any, model: Any) -> None:
        self.model_config, self.parallel_config = vllm_config.model_config, vllm_config.parallel_config
        self.device, self.model = device, model

    def parse_update_info(self, update_info: dict[str, Any]) -> Update:
        return self.update_info_cls(**update_info)
