// These scripts change arguments after an op has run: lists, conjugate views, sizes, generators, grad mode. A
// recomputation must start from the arguments of the forward.
#include <doctest/doctest.h>

#include "tests/conformance/scripts.h"
namespace memtune::tests::scripted_test {
namespace {

const Script kScripts[] = {
    {"a list of numbers that changes when the op has run", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    shifts = [1]
    rolled = torch.roll(y * 2.0, shifts, [0])
    shifts[0] = 2
    return torch.matmul(torch.sin(rolled), self.b) + torch.roll(x, shifts, [0])
)"},
    {"a list of sizes that grows when the op has run", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    dims = [1]
    total = torch.sum(y * y, dims, True)
    dims.append(0)
    return torch.matmul(y * torch.rsqrt(total + 1.0), self.b) + x * torch.sum(torch.sigmoid(x), dims)
)"},
    {"a write through a conjugate view", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    u = torch.view_as_complex(y.view([4, 4, 2])) * 1.5
    torch.conj(u).mul_(0.5)
    z = torch.view_as_real(u * u) * 0.1
    return torch.matmul(z.reshape([4, 8]), self.b) + x
)"},
    {"a write through a negated view", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    u = torch.view_as_complex(y.view([4, 4, 2])) * 1.5
    torch.imag(torch.conj(u)).add_(0.5)
    z = torch.view_as_real(u * u) * 0.1
    return torch.matmul(z.reshape([4, 8]), self.b) + x
)"},
    {"a conjugate view whose base is written into when the op has run", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    u = torch.view_as_complex(y.view([4, 4, 2])) * 1.5
    z = torch.exp(torch.conj(u) * 0.1)
    u.mul_(2.0)
    return torch.matmul(torch.view_as_real(z * z + u * 0.1).reshape([4, 8]), self.b) + x
)"},
    {"a result that is given as out= where there are no gradients", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    s = torch.empty_like(y)
    torch.sigmoid(y, out=s)
    torch.set_grad_enabled(before)
    return torch.matmul(torch.tanh(y) * s, self.b) + x
)"},
    {"weights that are drawn anew in the forward", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    n = torch._no_grad_normal_(torch.empty_like(y.detach()), 0.0, 1.0)
    u = torch._no_grad_uniform_(torch.empty_like(y.detach()), 0.0, 1.0)
    return torch.matmul(torch.tanh(y) * n, self.b) + torch.sin(y) * u + x
)"},
    {"an op with a generator of its own", R"(
def forward(self, x):
    g = torch.Generator(device=x.device)
    g.manual_seed(5)
    y = torch.matmul(x, self.a)
    first = torch.rand([4, 8], generator=g).to(x.device)
    second = torch.rand([4, 8], generator=g).to(x.device)
    return torch.matmul(torch.tanh(y) * first, self.b) + torch.sin(y) * second + x
)"},
    {"an op that gives a value other sizes in place", R"(
def forward(self, x):
    y = torch.matmul(x, self.a) * 1.5
    y.as_strided_([4, 4], [8, 1], 2)
    z = torch.sin(y)
    return torch.matmul(torch.cat([z, z * z], 1), self.b) + x
)"},
    {"a fill with a tensor, new and in place", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    s = torch.tanh(y).sum()
    u = torch.fill(y, s) * y
    v = torch.sigmoid(y) * 1.5
    v[0].fill_(s * 0.1)
    return torch.matmul(u * v, self.b) + x
)"},
    {"a gradient that is zeros without memory", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    return torch.sgn(torch.tanh(y)) + torch.matmul(x, self.b)
)"},
    {"a sparse matrix in compressed rows that is saved", R"(
def forward(self, x):
    m = torch._to_sparse_csr(torch.relu(torch.matmul(x.t(), x)).detach())
    y = torch.matmul(m, torch.tanh(torch.matmul(x, self.a)).t()).t()
    return torch.matmul(torch.sin(y), self.b) + x
)"},
};

TEST_CASE("scripts that change arguments of ops get the bits of plain autograd under every strategy") {
  check_under_every_strategy(kScripts);
}

}  // namespace
}  // namespace memtune::tests::scripted_test
