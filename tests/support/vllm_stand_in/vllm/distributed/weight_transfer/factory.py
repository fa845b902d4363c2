"""Where transports are known by name."""


class WeightTransferEngineFactory:
    @staticmethod
    def register_engine(name: str, engine: type) -> None:
        pass
