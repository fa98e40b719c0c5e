// Users pass files of every kind. The error for a wrong file must say in one line what it is. A right file must change
// only as requested.
#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "core/base/error.h"
#include "core/model/frontend/front_end.h"
#include "core/model/frontend/library.h"
#include "core/model/frontend/torchscript/module_file.h"
namespace memtune::frontend::frontend_load_test {
namespace {

namespace fs = std::filesystem;
using torch::jit::Module;

const c10::Device kCpu(c10::kCPU);
const std::string kHowToSave =
    "; save the model with torch.export.save(torch.export.export(...), path) or torch.jit.trace(...).save(path)";

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("memtune-load-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }
  std::string zip(const std::string& name, const std::vector<std::string>& records) const {
    caffe2::serialize::PyTorchStreamWriter writer(file(name));
    for (const auto& record : records) writer.writeRecord(record, "x", 1);
    writer.writeEndOfFile();
    return file(name);
  }

 private:
  fs::path path_;
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ModelSourceAndLoweringOptions source(const std::string& path, const std::string& dtype = "") {
  return {{path, ""}, dtype, kCpu, 0, 0};
}

program::Program load(const std::string& path, const std::string& dtype = "") { return lower(source(path, dtype)); }

// The error message for the file, without its path.
std::string refusal(const std::string& path) {
  try {
    load(path);
  } catch (const UsageError& error) {
    std::string start = "cannot use the model '" + path + "': ", text = error.what();
    CHECK(text.substr(0, start.size()) == start);
    CHECK(text.find('\n') == std::string::npos);
    return text.substr(start.size());
  }
  return "no error";
}

Module tied() {
  Module module("Model");
  at::Tensor weight = at::ones({4, 4}).requires_grad_();
  module.register_parameter("weight", weight, false);
  module.register_parameter("head", weight, false);
  module.register_parameter("fixed", at::ones({4}), false);
  module.register_buffer("count", at::ones({2}, at::kLong));
  module.register_buffer("mean", at::ones({4}));
  module.register_attribute("extra", c10::TensorType::get(), at::ones({3}));
  module.register_attribute("training", c10::BoolType::get(), false);
  module.define(
      "def forward(self, x):\n    return torch.linear(torch.linear(x, self.weight), self.head) * self.fixed\n");
  return module;
}

std::string save(const Folder& folder, const Module& module, const std::string& name = "model.pt") {
  module.save(folder.file(name));
  return folder.file(name);
}

TEST_CASE("the error for a file that is not TorchScript says what the file is") {
  Folder folder;
  CHECK(refusal(folder.file("none.pt")) == "there is no such file");
  CHECK(refusal(fs::path(folder.file("x")).parent_path()) ==
        "it is a folder, not a TorchScript file, and has no config.json");
  CHECK(refusal(folder.write("empty.pt", "")) == "it is empty");
  CHECK(refusal(folder.write("text.pt", "hello")) == "it is no zip archive, so no TorchScript" + kHowToSave);
  CHECK(refusal(folder.zip("state.pt", {"data.pkl", "data/0"})) ==
        "it is a state_dict: torch.save wrote weights, no code" + kHowToSave);
  CHECK(refusal(folder.zip("other.zip", {"readme.txt"})) ==
        "it is a zip archive without TorchScript code" + kHowToSave);
}

TEST_CASE("a pipe as a model or a library is refused without waiting for it") {
  Folder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(pipe) == "it is a pipe; a regular file is needed");
  CHECK_THROWS_WITH_AS(load_libraries({pipe}), ("--library: " + pipe + " is a pipe; a regular file is needed").c_str(),
                       UsageError);
}

TEST_CASE("a truncated file is refused wherever it was cut") {
  Folder folder;
  std::string whole = read(save(folder, tied()));
  for (size_t percent = 1; percent < 100; percent += 7)
    CHECK(refusal(folder.write("cut.pt", whole.substr(0, whole.size() * percent / 100))) ==
          "it is damaged or cut off: the archive's directory is missing or invalid");
}

TEST_CASE("a damaged file loads or is refused in one line") {
  Folder folder;
  std::string whole = read(save(folder, tied()));
  for (size_t at = 0; at < whole.size(); at += 61) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    refusal(folder.write("damaged.pt", damaged));  // loads, or fails in one line, but never crashes
  }
}

TEST_CASE("a model without trainable parameters or without forward is refused") {
  Folder folder;
  Module constant("Model");
  constant.define("def forward(self, x):\n    return x\n");
  CHECK(refusal(save(folder, constant)) ==
        "it has no parameters; if it was frozen (torch.jit.freeze), save it without that");
  Module fixed("Model");
  fixed.register_parameter("weight", at::ones({2}), false);
  fixed.define("def forward(self, x):\n    return x * self.weight\n");
  CHECK(refusal(save(folder, fixed)) == "none of its parameters requires grad, so there is nothing to train");
  Module silent("Model");
  silent.register_parameter("weight", at::ones({2}).requires_grad_(), false);
  silent.define("def run(self, x):\n    return x * self.weight\n");
  CHECK(refusal(save(folder, silent)) == "it has no forward method");
}

TEST_CASE("casting changes only floating tensors and keeps ties and requires_grad and the mode") {
  Folder folder;
  Module module = load_module(source(save(folder, tied()), "bfloat16"));
  CHECK((module.attr("weight").toTensor().scalar_type() == at::kBFloat16));
  CHECK(module.attr("weight").toTensor().requires_grad());
  CHECK(module.attr("weight").toTensor().is_leaf());
  CHECK(module.attr("weight").toTensor().is_same(module.attr("head").toTensor()));
  CHECK_FALSE(module.attr("fixed").toTensor().requires_grad());
  CHECK((module.attr("count").toTensor().scalar_type() == at::kLong));
  CHECK((module.attr("mean").toTensor().scalar_type() == at::kBFloat16));
  CHECK((module.attr("extra").toTensor().scalar_type() == at::kBFloat16));
  CHECK_FALSE(module.is_training());
}

TEST_CASE("without a requested dtype tensors keep the stored one") {
  Folder folder;
  Module module = load_module(source(save(folder, tied())));
  CHECK((module.attr("weight").toTensor().scalar_type() == at::kFloat));
  CHECK((module.attr("mean").toTensor().scalar_type() == at::kFloat));
}

TEST_CASE("a dtype that weights cannot have is refused") {
  Folder folder;
  CHECK_THROWS_WITH_AS(load(save(folder, tied()), "int64"),
                       "a model cannot be cast to int64; valid: float32, float64, float16, bfloat16", UsageError);
}

TEST_CASE("tied parameters are listed once") {
  Folder folder;
  const program::ModelParametersAndBuffers state = load(save(folder, tied())).state;
  REQUIRE(state.parameters.size() == 2);
  CHECK(state.parameters[0].first == "weight");
  CHECK(state.parameters[1].first == "fixed");
  REQUIRE(state.ties.size() == 1);
  CHECK(state.ties[0] == std::pair<std::string, std::string>("head", "weight"));
  CHECK(state.buffers.empty());
  CHECK((state.object.toObjectRef().getAttr("count").toTensor().scalar_type() == at::kLong));
}

TEST_CASE("a model with only tensors and forward is a trace and any other is a script") {
  Folder folder;
  CHECK(load(save(folder, tied())).kind == "traced");
  CHECK(load(save(folder, tied()), "float32").notes.size() == 2);
  Module scripted = tied();
  scripted.register_attribute("heads", c10::IntType::get(), 4);
  CHECK(load(save(folder, scripted)).kind == "scripted");
  Module list = tied();
  list.define("def __len__(self) -> int:\n    return 3\n");
  CHECK(load(save(folder, list)).kind == "scripted");
  REQUIRE(load(save(folder, list)).notes.size() == 1);
  CHECK(load(save(folder, list)).notes[0].starts_with("the model was saved in evaluation mode and stays so"));
  list.train();
  CHECK(load(save(folder, list)).notes.empty());
}

TEST_CASE("a profile is built in its own dtype or in the requested one") {
  const char* profile =
      R"({"description": "d", "batch": 2, "sequence": 4, "config": {"model_type": "llama", "torch_dtype": "float16",
    "vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "rms_norm_eps": 1e-5, "hidden_act": "silu"}})";
  const auto type = [&](const std::string& dtype) {
    const program::Program program = lower({{"", profile}, dtype, kCpu, 1, 0});
    CHECK(program.kind == "profile");
    return program.state.parameters.at(0).second.scalar_type();
  };
  CHECK((type("") == at::kHalf));
  CHECK((type("bfloat16") == at::kBFloat16));
}

}  // namespace
}  // namespace memtune::frontend::frontend_load_test
