// A model file is a program. Forbidden operators are refused before any of its code runs.
#include <doctest/doctest.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>

#include <fstream>

#include "core/base/error.h"
#include "core/model/frontend/front_end.h"
#include "core/model/source/outside_ops.h"
#include "tests/support/run_program.h"

namespace memtune::trust_test {

using namespace memtune;

namespace {

struct Bench {
  test::ScratchFolder folder;
  std::string target = (folder.path / "written").string(), path = (folder.path / "model.pt").string();

  // Saves a linear layer whose class also has `code`.
  void save(const std::string& code, bool with_part = false) {
    torch::jit::Module model("Model");
    model.register_parameter("weight", at::ones({4, 4}).set_requires_grad(true), false);
    if (with_part) {
      torch::jit::Module part("Part", model._ivalue()->compilation_unit());
      part.define(code);
      model.register_module("part", part);
    } else {
      model.define(code);
    }
    if (with_part || code.find("def forward") == std::string::npos)
      model.define("def forward(self, x):\n  return torch.matmul(x, self.weight)\n");
    model.save(path);
  }

  program::Program lower(bool trusted = false) const {
    frontend::ModelSourceAndLoweringOptions source;
    source.model.path = path;
    source.model.trusted = trusted;
    return frontend::lower(source);
  }

  std::string refusal() const {
    try {
      lower();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
};

std::string writes(const std::string& target) { return "torch.save(self.weight, '" + target + "')"; }

}  // namespace

TEST_CASE("a model that writes a file in forward is refused by operator name unless it is trusted") {
  Bench bench;
  bench.save("def forward(self, x):\n  " + writes(bench.target) + "\n  return torch.matmul(x, self.weight)\n");
  CHECK(bench.refusal() == "cannot use the model '" + bench.path +
                               "': it uses aten::save, which reaches beyond a training step (files, processes, the "
                               "network): if you trust its author, --trust-model runs it");
  CHECK_FALSE(std::filesystem::exists(bench.target));
  CHECK_NOTHROW(bench.lower(true));
  CHECK(bench.refusal().find("aten::save") != std::string::npos);  // trust holds for one load
}

TEST_CASE("code that loading itself would run is refused before it runs") {
  Bench bench;
  bench.save(
      "def __getstate__(self):\n  return self.weight\ndef __setstate__(self, state: Tensor):\n  torch.save(state, '" +
      bench.target + "')\n  self.weight = state\n");
  std::filesystem::remove(bench.target);
  CHECK(bench.refusal().find("aten::save") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(bench.target));
  try {
    bench.lower(true);
  } catch (const Error&) {
  }
  CHECK(std::filesystem::exists(bench.target));  // a trusted load runs the code
}

TEST_CASE("other methods and submodules and file reads are refused as well") {
  Bench bench;
  bench.save("def helper(self, x):\n  " + writes(bench.target) + "\n  return x\n");
  CHECK(bench.refusal().find("aten::save") != std::string::npos);
  bench.save("def helper(self):\n  return torch.from_file('/etc/passwd', False, 10)\n");
  CHECK(bench.refusal().find("aten::from_file") != std::string::npos);
  bench.save("def helper(self):\n  return torch.from_file('/etc/passwd', False, 10)\n", /*with_part=*/true);
  CHECK(bench.refusal().find("aten::from_file") != std::string::npos);
}

TEST_CASE("a model that only computes needs no trust") {
  Bench bench;
  bench.save("def helper(self, x):\n  return torch.relu(x)\n");
  CHECK(bench.refusal() == "");
}

TEST_CASE("operators for files and processes and the network are listed but no arithmetic") {
  for (const char* op : {"aten::from_file", "aten::save", "prim::rpc_async", "c10d::send",
                         "_c10d_functional::all_reduce", "symm_mem::nvshmem_put", "inductor::_reinterpret_tensor"})
    CHECK(model::reaches_outside(op));
  for (const char* op : {"aten::linear", "aten::safe_softmax", "prim::ListConstruct", "quantized::linear"})
    CHECK_FALSE(model::reaches_outside(op));
}

TEST_CASE("an archive with a huge declared size is refused before it is unpacked") {
  Bench bench;
  bench.save("def helper(self, x):\n  return x\n");
  std::string bytes = test::slurp(bench.path);
  const size_t entry = bytes.find("PK\1\2");
  REQUIRE(entry != std::string::npos);
  bytes.replace(entry + 24, 4, "\xF0\xFF\xFF\xFF", 4);  // its declared unpacked size
  std::ofstream(bench.path, std::ios::binary) << bytes;
  CHECK(bench.refusal().find(" unpack to 4") != std::string::npos);
}

}  // namespace memtune::trust_test
