import torch
from backpack import backpack, extend
from backpack.extensions import (
    KFLR,
    BatchGrad,
    BatchL2Grad,
    DiagGGNExact,
    DiagHessian,
    SumGradSquared,
    Variance,
)

torch.manual_seed(0)
x, y = torch.randn(8, 4), torch.randint(3, (8,))
model = extend(torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 3)))
loss_of = extend(torch.nn.CrossEntropyLoss())
asked = (BatchGrad(), BatchL2Grad(), DiagGGNExact(), DiagHessian(), KFLR(), SumGradSquared(), Variance())
with backpack(*asked):
    loss_of(model(x), y).backward()
for name, p in model.named_parameters():
    print(name, p.grad_batch.shape, p.grad_batch.norm(), p.batch_l2.sum(), p.variance.sum())
    print(
        p.diag_ggn_exact.sum(),
        p.diag_h.sum(),
        p.sum_grad_squared.sum(),
        [factor.trace() for factor in p.kflr],
    )
pictures = extend(
    torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32, 3))
)
with backpack(BatchGrad(), DiagGGNExact()):
    loss_of(pictures(torch.randn(4, 1, 6, 6)), y[:4]).backward()
print([p.grad_batch.norm() for p in pictures.parameters()])
print([p.diag_ggn_exact.sum() for p in pictures.parameters()])
