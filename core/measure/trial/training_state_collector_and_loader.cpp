#include "core/measure/trial/training_state_collector_and_loader.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <unordered_set>

#include "core/base/device/torch/torch_device.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/engine/state/load.h"
#include "core/measure/trial/model_object_tensor_and_number_visitor.h"
#include "core/model/safetensors/header.h"

namespace memtune::trial {
namespace {

constexpr const char* kLoss = "run.loss";
constexpr size_t kMaxReported = 8;

// Prefix of the names of what a rank has for itself, in the files of ranks other than 0.
std::string rank_prefix(size_t rank) { return "rank." + std::to_string(rank) + "."; }

// A tensor of a saved state, and its name for the rank that loads it.
struct SeenTensor {
  std::string name;
  const state::ManifestTensorEntry* tensor;
};

// Returns "w" for "w" and for "optimizer.w.exp_avg".
std::string parameter_of(const std::string& name) {
  constexpr std::string_view kOptimizer = "optimizer.";
  if (!name.starts_with(kOptimizer)) return name;
  return name.substr(kOptimizer.size(), name.rfind('.') - kOptimizer.size());
}

// A rank loads what the rank of the same number had for itself. If there was none, it loads what rank 0 had.
std::vector<SeenTensor> seen_by(int rank, const state::StateManifest& manifest) {
  std::vector<SeenTensor> all;
  std::set<std::string> own;
  for (const state::ManifestTensorEntry& tensor : manifest.tensors) {
    const std::string prefix = rank_prefix(tensor.file);
    const bool of_rank = tensor.file > 0 && !tensor.part && tensor.name.starts_with(prefix);
    if (of_rank && tensor.file != static_cast<size_t>(rank)) continue;
    all.push_back({of_rank ? tensor.name.substr(prefix.size()) : tensor.name, &tensor});
    if (of_rank) own.insert(all.back().name);
  }
  std::erase_if(all, [&](const SeenTensor& seen) { return seen.name == seen.tensor->name && own.contains(seen.name); });
  return all;
}

// Throws with "--lr 0.01 there and 0.001 here". Settings that one of the two does not have are not compared.
void check_settings(const state::Settings& there, const state::Settings& here) {
  const auto text = [](const std::string& value) { return value.empty() ? "none" : value; };
  std::vector<std::string> differences;
  for (const auto& [flag, value] : here)
    if (const auto before = there.find(flag); before != there.end() && before->second != value)
      differences.push_back(flag + " " + text(before->second) + " there and " + text(value) + " here");
  if (!differences.empty()) throw UsageError("the saved state is of another training: " + join(differences, "; "));
}

// Random state of a device. A run may resume on another kind of device, where it starts from the seed.
bool is_of_a_device(const std::string& name) { return name.starts_with("random.") && name != "random.cpu"; }

// Throws with "'a' is F32[2] there and BF16[2] here", and how many more differ.
[[noreturn]] void refuse(const std::vector<std::string>& differences) {
  std::vector<std::string> told(differences.begin(),
                                differences.begin() + static_cast<int64_t>(std::min(kMaxReported, differences.size())));
  if (differences.size() > told.size()) told.push_back(std::to_string(differences.size() - told.size()) + " more");
  throw UsageError("the saved state is of another model or training: " + join(told, "; "));
}

}  // namespace

TrainingStateCollectorAndLoader::TrainingStateCollectorAndLoader(ForwardBackwardRunner& runner,
                                                                 optimizer::Optimizer& optimizer)
    : runner_(runner), model_(runner.state()), optimizer_(optimizer), device_(device::torch_device(runner.device())) {
  ModelObjectTensorAndNumberVisitor(
      [](const auto&, const auto&) {},
      [this](const std::string& name, const auto& object, size_t slot) { numbers_[name] = object->getSlot(slot); })
      .walk("", model_.object);
  bytes({});
}

int TrainingStateCollectorAndLoader::rank() const { return model_.shards ? model_.shards->rank : 0; }

TrainingStateCollectorAndLoader::Items TrainingStateCollectorAndLoader::items() const {
  Items items;
  add_buffers(items);
  if (model_.shards) {
    add_pieces(items);
  } else {
    add_parameters(items);
  }
  add_attributes(items);
  add_random(items);
  return items;
}

void TrainingStateCollectorAndLoader::add_buffers(Items& items) const {
  for (const auto& [name, tensor] : model_.buffers)
    items.push_back({.name = name, .tensor = tensor, .changes_in_forward = true, .of_rank = true});
}

// Offloaded ones are updated while a forward and its backward run.
void TrainingStateCollectorAndLoader::add_parameters(Items& items) const {
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    const at::Tensor bytes = runner_.with_bytes(tensor);
    items.push_back({.name = name, .tensor = bytes, .changes_in_forward = !bytes.is_same(tensor)});
  };
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    const auto& [name, parameter] = model_.parameters[i];
    const bool trained = parameter.requires_grad() || written_.contains(parameter.storage().data());
    if (model_.adapted && !trained) continue;
    add(name, parameter);
    for (const auto& [kind, tensor] : optimizer_.state(i)) add("optimizer." + name + "." + kind, tensor);
  }
}

// Optimizer state of a whole parameter is saved with its first piece.
void TrainingStateCollectorAndLoader::add_pieces(Items& items) const {
  std::map<std::string, const at::Tensor*> parameters;
  for (const auto& [name, parameter] : model_.parameters) parameters[name] = &parameter;
  for (size_t i = 0; i < model_.shards->pieces.size(); ++i) {
    const program::ParameterShard& piece = model_.shards->pieces[i];
    if (model_.adapted && !piece.tensor.requires_grad()) continue;
    const at::Tensor& whole = *parameters.at(piece.name);
    const state::ShardExtent part = part_of(row_of(whole).value(), piece.begin, whole.is_complex());
    items.push_back({.name = piece.name, .tensor = piece.tensor, .part = part});
    for (const auto& [kind, tensor] : optimizer_.state(i)) {
      TrainingStateTensor item{.name = "optimizer." + piece.name + "." + kind, .tensor = tensor};
      if (tensor.dim() > 0) item.part = part;
      item.elsewhere = tensor.dim() == 0 && part.begin > 0;
      items.push_back(std::move(item));
    }
  }
}

void TrainingStateCollectorAndLoader::add_attributes(Items& items) const {
  std::unordered_set<const void*> seen;
  for (const TrainingStateTensor& item : items) seen.insert(item.tensor.unsafeGetTensorImpl());
  for (const auto& [name, parameter] : model_.parameters) seen.insert(parameter.unsafeGetTensorImpl());
  const auto take_tensor = [&](const std::string& name, const at::Tensor& tensor) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second)
      items.push_back({.name = name, .tensor = tensor, .changes_in_forward = true, .of_rank = true});
  };
  const auto take_number = [&](const std::string& name, const c10::intrusive_ptr<c10::ivalue::Object>& object,
                               size_t slot) {
    const auto before = numbers_.find(name);
    if (before != numbers_.end() && same_number(before->second, object->getSlot(slot))) return;
    const auto put = [object, slot](const at::Tensor& tensor) { object->setSlot(slot, number_of(tensor)); };
    items.push_back({.name = name, .tensor = tensor_of(object->getSlot(slot)), .put = put, .of_rank = true});
  };
  ModelObjectTensorAndNumberVisitor(take_tensor, take_number).walk("", model_.object);
}

void TrainingStateCollectorAndLoader::add_random(Items& items) const {
  const auto add = [&](const std::string& name, at::Generator generator) {
    const auto put = [generator](const at::Tensor& tensor) { at::Generator(generator).set_state(tensor); };
    items.push_back({.name = "random." + name, .tensor = generator.get_state(), .put = put, .of_rank = true});
  };
  add("cpu", at::globalContext().defaultGenerator(c10::kCPU));
  if (!device_.is_cpu()) add(c10::DeviceTypeName(device_.type(), true), at::globalContext().defaultGenerator(device_));
}

// Items with their names in this rank's file.
TrainingStateCollectorAndLoader::Items TrainingStateCollectorAndLoader::saved_items(
    const std::vector<double>& losses) const {
  Items items = this->items();
  items.push_back({.name = kLoss, .tensor = at::tensor(losses, at::kDouble), .elsewhere = rank() > 0});
  std::erase_if(items, [](const TrainingStateTensor& item) { return item.elsewhere; });
  for (TrainingStateTensor& item : items)
    if (item.of_rank && rank() > 0) item.name = rank_prefix(static_cast<size_t>(rank())) + item.name;
  return items;
}

std::vector<state::TensorToSave> TrainingStateCollectorAndLoader::parts(const std::vector<double>& losses) const {
  at::NoGradGuard no_grad;
  const Items items = saved_items(losses);
  std::set<const void*> written = written_;
  for (const TrainingStateTensor& item : items)
    if (item.changes_in_forward) written.insert(item.tensor.storage().data());
  std::vector<state::TensorToSave> parts;
  for (const TrainingStateTensor& item : items)
    parts.push_back(state_part(item, written.contains(item.tensor.storage().data()), device_));
  return parts;
}

int64_t TrainingStateCollectorAndLoader::bytes(const std::vector<double>& losses) const {
  std::vector<safetensors::TensorNameDtypeAndShape> specs;
  for (const TrainingStateTensor& item : saved_items(losses)) specs.push_back(spec_of(item));
  try {
    return safetensors::data_bytes_of(safetensors::lay_out(specs));
  } catch (const safetensors::MalformedFileError& why) {
    throw UsageError(std::string("the training cannot be saved: ") + why.what());
  }
}

// Creates the optimizer state that the saved state has, as the place to load it into.
void TrainingStateCollectorAndLoader::prepare(const std::set<std::string>& there) {
  std::vector<size_t> with_state;
  const auto look = [&](size_t i, const std::string& parameter) {
    const std::string name = "optimizer." + parameter + ".";
    const auto found = there.lower_bound(name);
    if (found != there.end() && found->starts_with(name)) with_state.push_back(i);
  };
  if (model_.shards) {
    for (size_t i = 0; i < model_.shards->pieces.size(); ++i) look(i, model_.shards->pieces[i].name);
  } else {
    for (size_t i = 0; i < model_.parameters.size(); ++i) look(i, model_.parameters[i].first);
  }
  runner_.make_states(optimizer_, with_state);
  for (auto number = numbers_.begin(); number != numbers_.end();)  // those that had changed are loaded
    number = there.contains(number->first) ? numbers_.erase(number) : std::next(number);
}

// With several ranks, a rank has no piece of some parameters, and so no place for what is saved of them.
std::set<std::string> TrainingStateCollectorAndLoader::without_piece() const {
  std::set<std::string> names;
  if (!model_.shards) return names;
  for (const auto& [name, parameter] : model_.parameters) names.insert(name);
  for (const program::ParameterShard& piece : model_.shards->pieces) names.erase(piece.name);
  return names;
}

// Finds this rank's item for each saved tensor; both must have the same names. The losses go into `losses`.
TrainingStateCollectorAndLoader::Expected TrainingStateCollectorAndLoader::expect(const state::StateManifest& manifest,
                                                                                  std::vector<double>& losses) {
  const std::vector<SeenTensor> there = seen_by(rank(), manifest);
  std::set<std::string> names;
  for (const SeenTensor& seen : there) names.insert(seen.name);
  prepare(names);
  losses.resize(static_cast<size_t>(manifest.step));
  std::map<std::string, TrainingStateTensor> own;
  for (const TrainingStateTensor& item : items()) own[item.name] = item;
  own[kLoss] = {.name = kLoss, .tensor = at::from_blob(losses.data(), {manifest.step}, at::kDouble)};
  const std::set<std::string> others = without_piece();
  std::vector<std::string> differences;
  Expected expected;
  for (const auto& [name, tensor] : there) {
    const auto item = own.find(name);
    if (item == own.end() && (others.contains(parameter_of(name)) || is_of_a_device(name))) continue;
    const std::string difference = item == own.end()
                                       ? "'" + name + "' is " + describe(*tensor) + " there and nothing here"
                                       : trial::difference(item->second, *tensor);
    if (!difference.empty()) differences.push_back(difference);
    if (item != own.end()) expected[{tensor->file, tensor->name}] = item->second;
  }
  for (const auto& [name, item] : own) {
    if (names.contains(name) || is_of_a_device(name)) continue;
    if (item.tensor.numel() > 0 || name == kLoss)  // no rank has a piece of an empty tensor
      differences.push_back("'" + name + "' is nothing there");
  }
  if (!differences.empty()) refuse(differences);
  return expected;
}

std::vector<double> TrainingStateCollectorAndLoader::load(const state::SavedStatesFolder& folder,
                                                          std::optional<int64_t> step) {
  at::NoGradGuard no_grad;
  Expected expected;
  std::vector<double> losses;
  const std::map<std::string, c10::IValue> numbers = numbers_;
  const auto begin = [&](const state::StateManifest& manifest) {
    check_settings(manifest.settings, folder.settings());
    expected = expect(manifest, losses);
  };
  const auto take = [&](const state::ManifestTensorEntry& tensor, std::span<const char> bytes) {
    const auto item = expected.find({tensor.file, tensor.name});
    if (item != expected.end()) trial::take(item->second, tensor, bytes);
  };
  state::load(folder, step, {begin, take});
  numbers_ = numbers;
  return losses;
}

}  // namespace memtune::trial
