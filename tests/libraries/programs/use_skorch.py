import numpy as np
import torch
from sklearn.datasets import make_classification
from skorch import NeuralNetClassifier
from torch import nn

torch.manual_seed(0)
X, y = make_classification(200, 20, n_informative=10, random_state=0)
X = X.astype(np.float32)
y = y.astype(np.int64)


class M(nn.Module):
    def __init__(s, h=10):
        super().__init__()
        s.a = nn.Linear(20, h)
        s.o = nn.Linear(h, 2)

    def forward(s, X):
        return torch.softmax(s.o(torch.relu(s.a(X))), -1)


n = NeuralNetClassifier(M, max_epochs=3, lr=0.1, iterator_train__shuffle=False, verbose=0)
n.fit(X, y)
print([round(r["train_loss"], 4) for r in n.history], n.predict_proba(X[:3]), n.score(X, y))
