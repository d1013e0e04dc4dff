import torch
import zuko

torch.manual_seed(0)
x = torch.randn(32, 2) * torch.tensor([1.0, 0.3]) + 0.5
context = torch.randn(32, 3)
for flow in (
    zuko.flows.NSF(2, 3, transforms=2, hidden_features=[8, 8]),
    zuko.flows.MAF(2, 3, transforms=2, hidden_features=[8]),
    zuko.flows.CNF(2, 3, hidden_features=[8]),
):
    optimizer = torch.optim.Adam(flow.parameters(), 1e-2)
    for _ in range(2):
        loss = -flow(context).log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(type(flow).__name__, loss.item())
    print(flow(context[0]).sample((2,)))
