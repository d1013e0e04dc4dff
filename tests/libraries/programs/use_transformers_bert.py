import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
m = BertForSequenceClassification(
    BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
)
x = torch.randint(0, 50, (4, 12))
y = torch.tensor([0, 1, 0, 1])
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for _ in range(3):
    o = m(input_ids=x, attention_mask=torch.ones_like(x), labels=y)
    o.loss.backward()
    opt.step()
    opt.zero_grad()
    print(f"{o.loss.item():.4f}")
print(o.logits)
