"""Words by two layers of LSTM, the state carried from batch to batch, gradients clipped."""

import torch
import torch.nn as nn


class RNNModel(nn.Module):
    def __init__(self, ntoken=23, ninp=12, nhid=12, nlayers=2, dropout=0.3, tie_weights=True):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.ntoken, self.nhid, self.nlayers = ntoken, nhid, nlayers
        self.hidden = None

    def forward(self, words):
        if self.hidden is None:
            weight = next(self.parameters())
            self.hidden = tuple(weight.new_zeros(self.nlayers, words.size(1), self.nhid) for _ in range(2))
        self.hidden = tuple(h.detach() for h in self.hidden)
        output, self.hidden = self.rnn(self.drop(self.encoder(words)), self.hidden)
        return torch.log_softmax(self.decoder(self.drop(output)).view(-1, self.ntoken), dim=1)


def make():
    model = RNNModel()
    return model, torch.optim.SGD(model.parameters(), lr=1.0), None


def batch():
    words = torch.randint(23, (10, 4))
    return words[:-1], words[1:].reshape(-1)


def loss(model, words, targets):
    return nn.NLLLoss()(model(words), targets)


def after_backward(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
