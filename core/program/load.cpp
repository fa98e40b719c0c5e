#include "core/program/load.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/program/decoder.h"

namespace memtune::program {
namespace {

namespace fs = std::filesystem;
using torch::jit::Module;

const char* const kHowToSave = "; save the model with torch.jit.script(model).save(path) or torch.jit.trace(...)";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UsageError("cannot use the model '" + path + "': " + why);
}

// One line, without the C++ stack that LibTorch adds. TorchScript's own first line is often empty.
std::string first_line(const std::exception& error) {
  auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  size_t begin = text.find_first_not_of(" \n");
  return begin == std::string::npos ? "no reason given" : text.substr(begin, text.find('\n', begin) - begin);
}

at::ScalarType scalar_type(const std::string& dtype) {
  static const std::map<std::string, at::ScalarType> types = {
      {"float32", at::kFloat}, {"float64", at::kDouble}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}};
  auto found = types.find(dtype);
  if (found == types.end())
    throw UsageError("a model cannot be cast to " + dtype + "; valid: float32, float64, float16, bfloat16");
  return found->second;
}

// The directory of a zip archive stands at its end: a file that was cut off has none.
void check_is_whole_zip(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) refuse(path, "there is no such file");
  if (fs::is_directory(path, error)) refuse(path, "it is a folder, not a TorchScript file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "it cannot be read");
  auto size = static_cast<std::streamoff>(fs::file_size(path, error));
  if (error || size == 0) refuse(path, "it is empty");
  std::string start(4, '\0');
  file.read(start.data(), 4);
  if (start.compare(0, 4, "PK\3\4") != 0)
    refuse(path, std::string("it is no zip archive, so no TorchScript") + kHowToSave);
  std::string tail(static_cast<size_t>(std::min<std::streamoff>(size, 65536 + 22)), '\0');
  file.seekg(size - static_cast<std::streamoff>(tail.size()));
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  if (tail.find("PK\5\6") == std::string::npos)
    refuse(path, "it is damaged or cut off: the archive's directory is missing");
}

std::vector<std::string> record_names(const std::string& path) {
  try {
    return caffe2::serialize::PyTorchStreamReader(path).getAllRecords();
  } catch (const std::exception& error) {
    std::string why = first_line(error);
    if (why.find("subdirectory") != std::string::npos || why.find("version") != std::string::npos) return {};
    refuse(path, "it is damaged or no TorchScript (" + why + ")");
  }
}

void check_is_torchscript(const std::string& path) {
  auto records = record_names(path);
  auto has = [&](const std::string& start) {
    return std::any_of(records.begin(), records.end(), [&](const auto& name) { return name.starts_with(start); });
  };
  if (has("constants.pkl") && has("code/")) return;
  if (has("archive_format") || has("models/") || has("serialized_exported_program"))
    refuse(path, std::string("it is a torch.export archive") + kHowToSave);
  if (has("data.pkl"))
    refuse(path, std::string("it was written by torch.save and holds weights or pickled Python, no code") + kHowToSave);
  refuse(path, std::string("it is a zip archive without TorchScript code") + kHowToSave);
}

Module load_file(const std::string& path) {
  check_is_whole_zip(path);
  check_is_torchscript(path);
  try {
    return torch::jit::load(path, c10::Device(c10::kCPU));
  } catch (const std::exception& error) {
    refuse(path, "LibTorch cannot load it: " + first_line(error));
  }
}

void check_is_trainable(const std::string& path, const Module& module) {
  if (!module.find_method("forward")) refuse(path, "it has no forward method");
  if (module.parameters().size() == 0)
    refuse(path, "it has no parameters; if it was frozen (torch.jit.freeze), save it without that");
  for (const at::Tensor& parameter : module.parameters())
    if (parameter.is_floating_point() && parameter.requires_grad()) return;
  refuse(path, "none of its parameters requires grad, so there is nothing to train");
}

// Every tensor that the module holds in any way, once. Tensors are changed in place, so tied ones stay tied.
void move_tensors(Module& module, c10::Device device, std::optional<at::ScalarType> dtype) {
  std::unordered_set<const void*> seen;
  c10::IValue(module._ivalue()).visit([&](const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined() && seen.insert(value.toTensor().unsafeGetTensorImpl()).second) {
      at::Tensor tensor = value.toTensor();
      bool cast = dtype && tensor.is_floating_point();
      at::ScalarType wanted = cast ? *dtype : tensor.scalar_type();
      if (tensor.device() != device || tensor.scalar_type() != wanted)
        tensor.set_data(tensor.detach().to(device, wanted));
    }
    return value.isObject() && !seen.insert(value.toObject().get()).second;
  });
}

// Tracing keeps tensors, submodules and forward of a module (forward1 for its second call); scripting keeps its
// constants, its numbers and its other methods as well, and gives a module list a __len__.
bool was_traced(const Module& module) {
  for (const Module& part : module.modules()) {
    auto type = part.type();
    if (type->numConstants() > 0) return false;
    for (auto* method : type->methods())
      if (!method->name().starts_with("forward")) return false;
    for (const auto& attribute : type->getAttributes()) {
      bool kept = attribute.getName() == "training" || attribute.getName() == "_is_full_backward_hook";
      if (!kept && !attribute.getType()->is_module() && attribute.getType()->kind() != c10::TypeKind::TensorType)
        return false;
    }
  }
  return true;
}

LoadedModel build_profile(const std::string& json, const std::string& dtype, c10::Device device, int64_t seed,
                          int64_t sequence) {
  auto profile = config::parse_decoder_profile("model profile", json);
  auto type = scalar_type(dtype.empty() ? profile.dtype : dtype);
  return {build_decoder(profile, type, device, seed, sequence), "profile", {}};
}

}  // namespace

LoadedModel load_model(const config::ModelSource& source, const std::string& dtype, c10::Device device, int64_t seed,
                       int64_t sequence) {
  if (!source.profile.empty()) return build_profile(source.profile, dtype, device, seed, sequence);
  LoadedModel result{load_file(source.path), "scripted", {}};
  check_is_trainable(source.path, result.module);
  std::optional<at::ScalarType> type;
  if (!dtype.empty()) type = scalar_type(dtype);
  move_tensors(result.module, device, type);
  result.module.train();
  if (was_traced(result.module)) {
    result.kind = "traced";
    result.notes.push_back("traced: dropout, branches and batch-norm mode are fixed as they were recorded");
    if (type) result.notes.push_back("traced: casts to a dtype that were recorded stay as they are");
  }
  return result;
}

std::vector<std::pair<std::string, at::Tensor>> unique_parameters(const Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  std::unordered_set<const void*> seen;
  for (const auto& parameter : module.named_parameters())
    if (seen.insert(parameter.value.unsafeGetTensorImpl()).second) result.emplace_back(parameter.name, parameter.value);
  return result;
}

}  // namespace memtune::program
