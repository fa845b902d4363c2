"""Table of weight transports by name."""


class WeightTransferEngineFactory:
    @staticmethod
    def register_engine(name: str, engine: type) -> None:
        pass
