import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
m = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=50,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
)
x = torch.randint(0, 50, (2, 16))
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for _ in range(3):
    o = m(input_ids=x, labels=x)
    o.loss.backward()
    opt.step()
    opt.zero_grad()
    print(f"{o.loss.item():.4f}")
m.eval()
print(m.generate(x[:, :4], max_new_tokens=5, do_sample=False, pad_token_id=0))
