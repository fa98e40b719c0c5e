#include "core/trial/training_state.h"

#include <ATen/ATen.h>
#include <ATen/core/class_type.h>
#include <ATen/core/grad_mode.h>

#include <set>
#include <sstream>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/frontend/safetensors.h"
#include "core/safetensors/header.h"
#include "core/state/load.h"

namespace memtune::trial {
namespace {

constexpr const char* kLoss = "run.loss";
constexpr size_t kMostTold = 8;

// Of complex ones each part is a number of its own: safetensors files know real ones only.
at::Tensor in_reals(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

std::string describe(std::string_view dtype, const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return std::string(dtype) + "[" + join(sizes, ",") + "]";
}

std::string describe(const safetensors::Spec& spec) { return describe(to_string(spec.dtype), spec.shape); }

safetensors::Spec spec_of(const std::string& name, const at::Tensor& tensor) {
  const auto dtype = tensor.layout() == at::kStrided && !tensor.is_quantized()
                         ? frontend::dtype_of(in_reals(tensor).scalar_type())
                         : std::nullopt;
  if (!dtype) {
    std::ostringstream text;
    text << "'" << name << "' cannot be saved: it is " << tensor.toString() << ", which safetensors files do not have";
    throw UsageError(text.str());
  }
  return {name, *dtype, in_reals(tensor).sizes().vec()};
}

// One element behind another, as files have them: in a copy where that is not so, in host memory where the device has
// no room for one.
at::Tensor contiguous(const at::Tensor& tensor) {
  try {
    return tensor.contiguous();
  } catch (const c10::OutOfMemoryError&) {
    return tensor.cpu().contiguous();
  }
}

state::StatePart part_of(const std::string& name, const at::Tensor& tensor, bool changes_in_forward,
                         c10::Device device) {
  const at::Tensor plain = contiguous(in_reals(tensor.detach().resolve_neg()));
  state::StatePart part;
  part.spec = spec_of(name, tensor);
  part.data = static_cast<const char*>(plain.const_data_ptr());
  part.on_device = device.is_cpu() || !plain.is_cpu();
  part.memory = plain.storage().data();
  part.owner = std::make_shared<at::Tensor>(plain);
  const bool is_copy = part.memory != tensor.storage().data();  // that is to go before it takes a forward's memory
  part.changes_in_forward = changes_in_forward || is_copy;
  if (is_copy || tensor.is_inference()) return part;
  part.is_unchanged = [tensor, version = tensor._version()] { return tensor._version() == version; };
  return part;
}

// All tensors of a model's object and what it holds, by their paths.
class Attributes {
 public:
  using TakeTensor = std::function<void(const std::string&, const at::Tensor&)>;
  using TakeNumber = std::function<void(const std::string&, const c10::intrusive_ptr<c10::ivalue::Object>&, size_t)>;

  Attributes(TakeTensor take_tensor, TakeNumber take_number)
      : take_tensor_(std::move(take_tensor)), take_number_(std::move(take_number)) {}

  void walk(const std::string& path, const c10::IValue& value) {
    if (value.isTensor() && value.toTensor().defined()) take_tensor_(path, value.toTensor());
    if (value.isObject()) walk_object(path, value.toObject());
    if (value.isList()) {
      const std::vector<c10::IValue> elements = value.toList().vec();
      for (size_t i = 0; i < elements.size(); ++i) walk(path + "." + std::to_string(i), elements[i]);
    }
    if (value.isGenericDict())
      for (const auto& entry : value.toGenericDict())
        walk(path + "." +
                 (entry.key().isString() ? entry.key().toStringRef() : std::to_string(entry.key().hash().toInt())),
             entry.value());
  }

 private:
  void walk_object(const std::string& path, const c10::intrusive_ptr<c10::ivalue::Object>& object) {
    if (!seen_.insert(object.get()).second) return;
    for (size_t i = 0; i < object->slots().size(); ++i) {
      const std::string name = (path.empty() ? "" : path + ".") + object->type()->getAttributeName(i);
      const c10::IValue value = object->getSlot(i);
      if (value.isInt() || value.isDouble() || value.isBool()) take_number_(name, object, i);
      walk(name, value);
    }
  }

  TakeTensor take_tensor_;
  TakeNumber take_number_;
  std::unordered_set<const void*> seen_;
};

at::Tensor tensor_of(const c10::IValue& number) {
  if (number.isInt()) return at::scalar_tensor(number.toInt(), at::kLong);
  if (number.isBool()) return at::scalar_tensor(number.toBool(), at::kBool);
  return at::scalar_tensor(number.toDouble(), at::kDouble);
}

c10::IValue number_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kLong) return tensor.item<int64_t>();
  if (tensor.scalar_type() == at::kBool) return tensor.item<bool>();
  return tensor.item<double>();
}

bool same_number(const c10::IValue& a, const c10::IValue& b) {
  return a.tagKind() == b.tagKind() && at::equal(tensor_of(a), tensor_of(b));
}

// "--lr 0.01 there and 0.001 here". What one of the two does not say is not compared.
void check_settings(const state::Settings& there, const state::Settings& here) {
  const auto text = [](const std::string& value) { return value.empty() ? "none" : value; };
  std::vector<std::string> differences;
  for (const auto& [flag, value] : here)
    if (const auto before = there.find(flag); before != there.end() && before->second != value)
      differences.push_back(flag + " " + text(before->second) + " there and " + text(value) + " here");
  if (!differences.empty()) throw UsageError("the saved state is of another training: " + join(differences, "; "));
}

// "'a' is F32[2] there and BF16[2] here", and how many more.
[[noreturn]] void refuse(const std::vector<std::string>& differences) {
  std::vector<std::string> told(differences.begin(),
                                differences.begin() + static_cast<int64_t>(std::min(kMostTold, differences.size())));
  if (differences.size() > told.size()) told.push_back(std::to_string(differences.size() - told.size()) + " more");
  throw UsageError("the saved state is of another model or training: " + join(told, "; "));
}

}  // namespace

TrainingState::TrainingState(program::State model, optimizer::Optimizer& optimizer, c10::Device device)
    : model_(std::move(model)), optimizer_(optimizer), device_(device) {
  Attributes([](const auto&, const auto&) {}, [this](const std::string& name, const auto& object,
                                                     size_t slot) { numbers_[name] = object->getSlot(slot); })
      .walk("", model_.object);
  bytes({});
}

TrainingState::Items TrainingState::items() const {
  Items items;
  add_buffers(items);
  add_parameters(items);
  add_attributes(items);
  add_random(items);
  return items;
}

void TrainingState::add_buffers(Items& items) const {
  for (const auto& [name, tensor] : model_.buffers) items.push_back({name, tensor, {}, true});
}

void TrainingState::add_parameters(Items& items) const {
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    const auto& [name, parameter] = model_.parameters[i];
    const bool trained = parameter.requires_grad() || written_.contains(parameter.storage().data());
    if (model_.adapted && !trained) continue;
    items.push_back({name, parameter, {}, false});
    for (const auto& [kind, tensor] : optimizer_.state(i))
      items.push_back({"optimizer." + name + "." + kind, tensor, {}, false});
  }
}

void TrainingState::add_attributes(Items& items) const {
  std::unordered_set<const void*> seen;
  for (const Item& item : items) seen.insert(item.tensor.unsafeGetTensorImpl());
  for (const auto& [name, parameter] : model_.parameters) seen.insert(parameter.unsafeGetTensorImpl());
  const auto take_tensor = [&](const std::string& name, const at::Tensor& tensor) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) items.push_back({name, tensor, {}, true});
  };
  const auto take_number = [&](const std::string& name, const c10::intrusive_ptr<c10::ivalue::Object>& object,
                               size_t slot) {
    const auto before = numbers_.find(name);
    if (before != numbers_.end() && same_number(before->second, object->getSlot(slot))) return;
    items.push_back({name, tensor_of(object->getSlot(slot)),
                     [object, slot](const at::Tensor& tensor) { object->setSlot(slot, number_of(tensor)); }, false});
  };
  Attributes(take_tensor, take_number).walk("", model_.object);
}

void TrainingState::add_random(Items& items) const {
  const auto add = [&](const std::string& name, at::Generator generator) {
    items.push_back({"random." + name, generator.get_state(),
                     [generator](const at::Tensor& tensor) { at::Generator(generator).set_state(tensor); }, false});
  };
  add("cpu", at::globalContext().defaultGenerator(c10::kCPU));
  if (!device_.is_cpu()) add(c10::DeviceTypeName(device_.type(), true), at::globalContext().defaultGenerator(device_));
}

std::vector<state::StatePart> TrainingState::parts(const std::vector<double>& losses) const {
  at::NoGradGuard no_grad;
  const Items items = this->items(losses);
  std::set<const void*> written = written_;
  for (const Item& item : items)
    if (item.changes_in_forward) written.insert(item.tensor.storage().data());
  std::vector<state::StatePart> parts;
  for (const Item& item : items)
    parts.push_back(part_of(item.name, item.tensor, written.contains(item.tensor.storage().data()), device_));
  return parts;
}

int64_t TrainingState::bytes(const std::vector<double>& losses) const {
  std::vector<safetensors::Spec> specs;
  for (const Item& item : items(losses)) specs.push_back(spec_of(item.name, item.tensor));
  try {
    return safetensors::data_bytes_of(safetensors::lay_out(specs));
  } catch (const safetensors::Malformed& why) {
    throw UsageError(std::string("the training cannot be saved: ") + why.what());
  }
}

TrainingState::Items TrainingState::items(const std::vector<double>& losses) const {
  Items items = this->items();
  items.push_back({kLoss, at::tensor(losses, at::kDouble), {}, false});
  return items;
}

// Gives the optimizer what the state has of it, so that there is something to load into.
void TrainingState::prepare(const state::Manifest& manifest) {
  std::set<std::string> there;
  for (const state::StateTensor& tensor : manifest.tensors) there.insert(tensor.name);
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    const std::string name = "optimizer." + model_.parameters[i].first + ".";
    const auto found = there.lower_bound(name);
    if (found != there.end() && found->starts_with(name)) optimizer_.make_state(i);
  }
  for (auto number = numbers_.begin(); number != numbers_.end();)  // those that had changed are to be loaded
    number = there.contains(number->first) ? numbers_.erase(number) : std::next(number);
}

// Everything that the saved state should have, by name; the losses go into `losses`.
TrainingState::Expected TrainingState::expect(const state::Manifest& manifest, std::vector<double>& losses) {
  prepare(manifest);
  losses.resize(static_cast<size_t>(manifest.step));
  Expected expected;
  for (const Item& item : items()) expected[item.name] = item;
  expected[kLoss] = {kLoss, at::from_blob(losses.data(), {manifest.step}, at::kDouble), {}, false};
  std::vector<std::string> differences;
  std::set<std::string> there;
  for (const state::StateTensor& tensor : manifest.tensors) {
    there.insert(tensor.name);
    const auto item = expected.find(tensor.name);
    const std::string is = describe(to_string(tensor.dtype), tensor.shape);
    const std::string own = item == expected.end() ? "nothing" : describe(spec_of(tensor.name, item->second.tensor));
    if (own != is) differences.push_back("'" + tensor.name + "' is " + is + " there and " + own + " here");
  }
  for (const auto& [name, item] : expected)
    if (!there.contains(name)) differences.push_back("'" + name + "' is nothing there");
  if (!differences.empty()) refuse(differences);
  return expected;
}

std::vector<double> TrainingState::load(const state::StateFolder& folder, std::optional<int64_t> step) {
  at::NoGradGuard no_grad;
  Expected expected;
  std::vector<double> losses;
  const std::map<std::string, c10::IValue> numbers = numbers_;
  const auto begin = [&](const state::Manifest& manifest) {
    check_settings(manifest.settings, folder.settings());
    expected = expect(manifest, losses);
  };
  const auto take = [&](const state::StateTensor& tensor, std::span<const char> bytes) {
    const Item& item = expected.at(tensor.name);
    const at::Tensor saved =
        at::from_blob(const_cast<char*>(bytes.data()), tensor.shape, frontend::scalar_type(tensor.dtype));
    if (item.put) return item.put(saved.clone());
    if (item.tensor.is_complex()) {
      item.tensor.copy_(at::view_as_complex(saved));
    } else {
      item.tensor.copy_(saved);
    }
  };
  state::load(folder, step, {begin, take});
  numbers_ = numbers;
  return losses;
}

}  // namespace memtune::trial
