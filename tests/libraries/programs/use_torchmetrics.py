import torch
import torchmetrics
from torchmetrics.classification import (
    BinaryAUROC,
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)

torch.manual_seed(0)
p = torch.randn(50, 4).softmax(-1)
t = torch.randint(0, 4, (50,))
for m in (MulticlassAccuracy(4), MulticlassConfusionMatrix(4), MulticlassF1Score(4)):
    m.update(p, t)
    print(m, m.compute())
a = BinaryAUROC()
print(a(torch.rand(30), torch.randint(0, 2, (30,))))
for m in (
    torchmetrics.MeanSquaredError(),
    torchmetrics.R2Score(),
    torchmetrics.PearsonCorrCoef(),
    torchmetrics.MeanMetric(),
):
    x = torch.randn(40)
    print(m(x, x + 0.1 * torch.randn(40)) if not isinstance(m, torchmetrics.MeanMetric) else m(x))
c = torchmetrics.MetricCollection([MulticlassAccuracy(4), MulticlassF1Score(4)])
print(c(p, t))
