"""A run's results in the forms of other tools: TensorBoard, MLflow, Optuna, tables of CSV."""
