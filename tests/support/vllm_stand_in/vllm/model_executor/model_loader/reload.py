"""No-op replacements of vLLM's reload functions; no layer of the stand-in is packed."""


def initialize_layerwise_reload(model: object) -> None:
    pass


def finalize_layerwise_reload(model: object, model_config: object) -> None:
    pass
