// Programs that read parameters in ways that sharding might miss: later, through views, in lists, in place, on the
// host, or as the output of another op.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/random_program.h"

namespace memtune::tests {

inline std::vector<RandomProgram> written_programs() {
  const std::vector<RandomProgram::Lines> blocks = {
      // in place, through a view: the base's grad_fn differs from the view's
      {"y = torch.matmul(x, self.a)", "y[0:2].mul_(self.gain)", "return (torch.tanh(y), s)"},
      {"y = torch.matmul(x, self.b)", "y[:, 0:4].mul_(self.gain[0:4])", "y[0].add_(self.gain)", "return (y * 0.5, y)"},
      {"y = x * 0.5", "y.addcmul_(self.gain, self.a[0:4])", "y[1:3].lerp_(self.b[0:2], self.gain)", "return (y, s)"},
      {"y = x * 0.5", "torch._foreach_mul_([y], [self.a[0:4]])", "return (y, s)"},
      {"y = x * 0.5", "y[0] = self.gain", "y[:, 1:2] = self.a[0:4, 1:2] * y[:, 0:1]", "return (torch.sin(y), s)"},
      // another block reads a view of a parameter
      {"y = torch.tanh(x * s)", "return (torch.matmul(y, self.a), self.gain.expand([4, 8]))"},
      {"y = torch.matmul(x, s.t())", "return (torch.matmul(y, self.b[4:8]), self.a[0:4])"},
      {"w = self.b.t()", "y = torch.matmul(torch.tanh(torch.matmul(x, self.a)), w)", "return (y, s)"},
      // computed from parameters alone
      {"w = self.a * self.b", "y = torch.matmul(x, w) + torch.matmul(s, w.t())", "return (y, torch.sin(s))"},
      {"w = torch.cat([self.a, self.b], 1)", "y = torch.matmul(x, w)", "return (y[:, 0:8], y[:, 8:16])"},
      {"l = torch.chunk(torch.stack([self.gain, self.gain * 2.0]), 2)", "return (x * l[0] + l[1], s * l[1])"},
      // returned by an op, read on the host, without gradient
      {"w = self.gain.contiguous().view([8]).to(6)", "return (torch.maximum(x, w) * w, s)"},
      {"y = x", "if bool(self.gain.sum() > float(self.a[0, 0])):", "    y = torch.matmul(x, self.b)",
       "return (y + 0.5, s)"},
      {"y = torch.matmul(x, torch.detach(self.a)) * torch.detach(self.gain).exp()", "return (torch.tanh(y), s)"},
      // ops that save their inputs
      {"y = torch.layer_norm(x, [8], self.gain, self.gain)", "return (torch.addmm(self.gain, y, self.a), s)"},
      {"y = torch.lerp(x.to(6), s.to(6), self.gain) / (self.a.norm() + 1.0)",
       "return (y, torch.prelu(s, self.gain[0:1].abs()))"},
      {"y = torch.cdist(x, self.a)", "return (y * 0.3, torch.embedding(self.table, ids, 1))"},
      {"v, i = torch.max(x.unsqueeze(1) * self.a, 1)", "return (v * 0.3, torch.where(s > 0.0, s, self.gain))"},
      {"y = torch.einsum(\"ij,jk,k->ik\", [x, self.a, self.gain])", "return (y, torch.addcdiv(s, x, self.gain.exp()))"},
      {"y = torch._weight_norm(self.a, self.gain.view([8, 1]), 0)", "return (torch.matmul(x, y), self.table[ids])"},
      {"y = torch.conv1d(x.unsqueeze(1), self.a[:, 0:3].unsqueeze(1), self.gain, [1], [1])", "return (y.mean(1), s)"},
      {"y, h = torch.gru(x.unsqueeze(0), torch.zeros([1, 1, 2]), [self.b[0:6], self.a[0:6, 0:2]], False, 1, 0.0, True, "
       "False, True)",
       "return (torch.cat([x[:, 0:6], y[0]], 1), s)"},
      // a frozen parameter, or one that gets no gradient
      {"y = torch.matmul(x, self.frozen)", "return (torch.tanh(y), s)"},
      {"y = x + 0.0 * self.gain.detach()", "return (y, torch.tanh(s))"},
  };
  std::vector<RandomProgram> programs;
  for (const auto& block : blocks) {
    RandomProgram program;
    program.seed = 100'000 + programs.size();
    program.functions.emplace_back();
    for (const std::string& line : block) program.functions.front().push_back("    " + line);
    program.blocks = {0, 0, 0};
    program.tied_blocks = programs.size() % 2 == 1;
    program.autocast = programs.size() % 4 == 3;
    program.functions.push_back(
        {"    h = x * 0.5", "    s = torch.matmul(y, self.w)", "    h, s = self.block0.forward(h, s, ids)",
         "    h, s = self.block1.forward(h, s, ids)", "    h, s = self.block2.forward(torch.matmul(h, self.w), s, ids)",
         "    second = (s * s).mean()",
         "    return (torch.cross_entropy_loss(torch.matmul(h, self.w), ids) + second, second)"});
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace memtune::tests
