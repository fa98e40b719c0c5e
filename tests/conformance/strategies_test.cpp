// Every strategy joins this suite. For every model, loss and gradients have the bits of plain autograd, and the engines
// hold nothing afterwards. Each case is something that other engines got wrong.
#include <doctest/doctest.h>

#include "tests/conformance/scripts.h"
namespace memtune::tests::strategies_test {
namespace {

const Script kScripts[] = {
    {"matmuls and activations", R"(
def forward(self, x):
    return x + torch.matmul(torch.gelu(torch.matmul(x, self.a)), self.b)
)"},
    {"dropout, whose mask a rerun has to repeat", R"(
def forward(self, x):
    return x + torch.dropout(torch.matmul(torch.dropout(x, 0.3, True), self.a), 0.5, True)
)"},
    {"in-place activation of a normalised value, and running statistics", R"(
def forward(self, x):
    y = torch.batch_norm(torch.matmul(x, self.a), None, None, self.mean, self.variance, True, 0.1, 1e-5, False)
    y = torch.relu_(y)
    y = torch.matmul(y, self.b)
    y.add_(x)
    return torch.relu_(y)
)"},
    {"running statistics that are read before they move", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    u = torch.sigmoid(y - self.mean)
    z = torch.batch_norm(y, None, None, self.mean, self.variance, True, 0.1, 1e-5, False)
    return torch.matmul(torch.tanh(z), self.b) + u
)"},
    {"running statistics of the op beneath batch_norm", R"(
def forward(self, x):
    y = torch.native_batch_norm(torch.matmul(x, self.a), None, None, self.mean, self.variance, True, 0.1, 1e-5)[0]
    return torch.matmul(torch.tanh(y), self.b) + x
)"},
    {"in-place write into the block's own input", R"(
def forward(self, x):
    x = torch.relu_(x)
    y = torch.matmul(x, self.a)
    return torch.matmul(torch.sigmoid(y), self.b) + x
)"},
    {"in-place writes through slices", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    z = torch.zeros_like(y)
    z[:, 0:4] = y[:, 4:8]
    z[:, 4:8] = torch.tanh(y[:, 0:4])
    return torch.matmul(z * z, self.b) + x
)"},
    {"a tensor and its transpose, square", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    m = torch.matmul(y.t(), y)
    return x + torch.matmul(y, torch.tanh(torch.matmul(m, m.t())))
)"},
    {"slices, broadcasts and views of one storage", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    p = y[:, 1:5]
    q = y[:, 3:7]
    r = y[:, :1].expand(4, 4)
    s = torch.cat([p * q, q * r], 1)
    return torch.matmul(s, self.b).view([2, 2, 8]).permute([1, 0, 2]).reshape([4, 8]) + x
)"},
    {"values that several ops save, and one that nobody uses", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    unused = torch.exp(y)
    return torch.sin(y) * torch.cos(y) + y * torch.matmul(y, self.b) + x
)"},
    {"attention with a private log-sum-exp", R"(
def forward(self, x):
    q = torch.matmul(x, self.a).view([1, 2, 2, 8])
    k = torch.matmul(x, self.b).view([1, 2, 2, 8])
    o = torch.scaled_dot_product_attention(q, k, q, None, 0.0, True)
    return o.reshape([4, 8]) + x
)"},
    {"attention with dropout inside", R"(
def forward(self, x):
    q = torch.matmul(x, self.a).view([1, 2, 2, 8])
    k = torch.matmul(x, self.b).view([1, 2, 2, 8])
    o = torch.scaled_dot_product_attention(q, k, q, None, 0.4, False)
    return o.reshape([4, 8]) + x
)"},
    {"a branch on data and a loop", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    if bool(y.sum() > 0):
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(y) * y
    for i in range(3):
        y = torch.matmul(y, self.b) * 0.5 + x
        if i == 1:
            y = torch.relu(y)
    return y
)"},
    {"routing by data: rows go to one of two experts", R"(
def forward(self, x):
    score, choice = torch.max(torch.matmul(x, self.a)[:, :2], 1)
    out = torch.zeros_like(x)
    for e in range(2):
        rows = torch.nonzero(choice == e).flatten()
        if rows.numel() > 0:
            part = torch.index_select(x, 0, rows)
            part = torch.matmul(torch.gelu(part), self.b) * float(e + 1)
            out = torch.index_add(out, 0, rows, part * torch.index_select(score, 0, rows).unsqueeze(1))
    return out + x
)"},
    {"lists, tuples and dictionaries of tensors", R"(
def forward(self, x):
    parts = torch.chunk(torch.matmul(x, self.a), 2, 1)
    kept = [torch.tanh(parts[0]), torch.sigmoid(parts[1])]
    kept.append(kept[0] * kept[1])
    d = {"sum": kept[2] + kept[0], "product": kept[1] * kept[2]}
    pair = (d["sum"], d["product"])
    return torch.matmul(torch.cat([pair[0], pair[1]], 1), self.b) + x
)"},
    {"a random mask drawn by hand", R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    mask = torch.bernoulli(torch.full_like(y, 0.5))
    return torch.matmul(torch.tanh(y * mask), self.b) + x * torch.rand_like(x)
)"},
    {"one weight used twice", R"(
def forward(self, x):
    y = torch.tanh(torch.matmul(x, self.a))
    return torch.matmul(y, self.a.t()) + torch.matmul(x, self.b)
)"},
};

// The second script, prepared to run under a strategy step by step.
struct Prepared {
  Model model{kScripts[1].source, 3};
  program::Program program =
      tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(test_device()));
  plan::ProgramFacts facts = model.surveyed(program);
  plan::Plan plan;
  step::ActivationPlanExecutor executor;
  program::Interpreter interpreter{program};

  explicit Prepared(const std::string& strategy)
      : plan(plan_of(strategy, facts)), executor(program, facts, plan, test_device(), test_tiers(plan)) {}

  static plan::Plan plan_of(const std::string& strategy, const plan::ProgramFacts& facts) {
    plan::Plan plan = plan::make_plan(plan::Strategy::parse(strategy), facts);
    plan.saved_min_bytes = plan.transfer.min_bytes = 0;
    return plan;
  }

  at::Tensor forward() {
    executor.begin_step();
    autograd::SavedTensorHooksScope hooks(&executor);
    at::Tensor loss = interpreter.run({model.input()}, &executor).toTensor();
    executor.end_forward();
    return loss;
  }
};

TEST_CASE("every strategy gives the bits of plain autograd and leaves nothing behind") {
  check_under_every_strategy(kScripts);
}

TEST_CASE("the suite covers all strategies") {
  for (const auto& info : plan::strategies()) {
    if (info.kind == plan::StrategyKind::states_host) continue;  // places no activation: tests/shard
    bool joined = false;
    for (const auto& strategy : all_strategies())
      joined = joined || strategy.starts_with(info.name.substr(0, info.name.find('=')));
    CHECK_MESSAGE(joined, info.name);
  }
}

TEST_CASE("strategies recompute and offload as their names say") {
  Model model(kScripts[0].source, 4);
  CHECK(model.under("none").reruns == 0);
  Step full = model.under("checkpoint:full");
  // Each block recomputes at least the first matmul and the gelu. The residual sum is the input of the next block and
  // stays.
  CHECK(full.reruns >= 4 * 2);
  CHECK(full.out_bytes == 0);
  CHECK(model.under("checkpoint:every=2").reruns == full.reruns / 2);
  Step inputs = model.under("checkpoint:full,inputs=host");
  CHECK(inputs.reruns == full.reruns);
  // Offloaded: the inputs of blocks 1 to 3, [4, 8] floats each. The input of block 0 is the program's own input and
  // stays.
  CHECK(inputs.out_bytes == 3 * 4 * 8 * 4);
  Step stream = model.under("offload:stream,stash=0B");
  CHECK(stream.reruns == 0);
  CHECK(stream.out_bytes > inputs.out_bytes);
  CHECK(stream.in_bytes == stream.out_bytes);
}

void check_statistics(const Script& each) {
  CAPTURE(each.name);
  Model plain(each.source, 4), checkpointed(each.source, 4);
  plain.plain();
  checkpointed.under("checkpoint:full");
  auto a = plain.module().buffers(), b = checkpointed.module().buffers();
  auto other = b.begin();
  int compared = 0;
  for (const auto& buffer : a) {
    CHECK(at::equal(buffer, *other));
    ++other;
    ++compared;
  }
  CHECK(compared == 8);
}

TEST_CASE("running statistics are updated once per step even if their op is recomputed") {
  for (const Script& each : kScripts)
    if (std::string(each.source).find("batch_norm") != std::string::npos) check_statistics(each);
}

TEST_CASE("backward may run twice over a graph") {
  for (const auto& strategy : all_strategies()) {
    CAPTURE(strategy);
    Prepared prepared(strategy);
    auto first_gradient = [&] { return (*prepared.model.module().parameters().begin()).grad().clone(); };
    at::Tensor loss = prepared.forward();
    loss.backward({}, /*retain_graph=*/true);
    at::Tensor once = first_gradient();
    loss.backward();
    CHECK(at::equal(first_gradient(), once * 2));
    loss.reset();
    CHECK(leased_at_rest(prepared.executor) == 0);
  }
}

TEST_CASE("a graph that dies without a backward frees everything") {
  for (const auto& strategy : all_strategies()) {
    CAPTURE(strategy);
    Prepared prepared(strategy);
    int64_t before = test_device().memory().allocated;
    for (int i = 0; i < 3; ++i) prepared.forward();
    CHECK(leased_at_rest(prepared.executor) == 0);
    CHECK(test_device().memory().allocated == before);
  }
}

TEST_CASE("an overwritten saved tensor is an error as in plain autograd") {
  const char* source = R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    z = torch.sigmoid(y)
    z.mul_(2.0)
    return torch.matmul(z, self.b)
)";
  Model plain(source, 2);
  CHECK_THROWS_AS(plain.plain(), c10::Error);
  for (const auto& strategy : all_strategies()) {
    CAPTURE(strategy);
    Model model(source, 2);
    CHECK_THROWS_WITH_AS(model.under(strategy), doctest::Contains("modified by an inplace operation"), c10::Error);
  }
}

TEST_CASE("an in-place op that saves what it overwrites is refused") {
  const char* source = R"(
def forward(self, x):
    y = torch.matmul(x, self.a)
    z = torch.matmul(x, self.b)
    return y.addcmul_(y, z)
)";
  for (const auto& strategy : all_strategies()) {
    CAPTURE(strategy);
    Model model(source, 2);
    CHECK_THROWS_WITH_AS(model.under(strategy), doctest::Contains("modified by an inplace operation"), c10::Error);
  }
}

TEST_CASE("parameters and their views and weights used twice are not offloaded") {
  const char* source = R"(
def forward(self, x):
    y = torch.matmul(x, self.a.t())
    return torch.matmul(y, self.a.view(8, 8)) + torch.matmul(y, self.a)
)";
  constexpr int64_t kValue = 4 * 8 * 4;  // y and the output of the block; a parameter has twice that
  const Step step = Model(source, 3, 8, {"a"}).under("offload:stream");
  CHECK(step.out_bytes == 3 * 2 * kValue);
}

TEST_CASE("a backward that throws leaves nothing of its step held") {
  const char* source = R"(
def forward(self, x):
    w = torch.sigmoid(torch.matmul(x, self.b))
    y = torch.sigmoid(torch.matmul(x, self.a))
    z = torch.matmul(y, self.b)
    y.mul_(2.0)
    return (z + y) + w
)";
  for (const auto& strategy : all_strategies()) {
    CAPTURE(strategy);
    Model model(source, 2);
    const int64_t before = test_device().memory().allocated;
    CHECK_THROWS_AS(model.under(strategy), c10::Error);
    model.clear();
    CHECK(test_device().memory().allocated == before);
  }
}

}  // namespace
}  // namespace memtune::tests::strategies_test
