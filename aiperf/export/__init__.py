"""Exports of a run to other tools: TensorBoard, MLflow, Optuna and CSV tables."""
