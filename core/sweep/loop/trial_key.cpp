#include "core/sweep/loop/trial_key.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>

#include "core/base/device/cuda_module.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/measure/process/interrupt.h"
#include "core/model/adapter/lora_config.h"
#include "core/model/transformers/weight_files.h"

namespace memtune::sweep {
namespace {

std::string hash_if_there(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? hash_file(path) : "";
}

std::string information_of(const std::filesystem::path& gpu) try {
  return read_file(gpu / "information");
} catch (const IoError&) {
  return "";  // a container may hide it
}

}  // namespace

std::string hash_file(const std::filesystem::path& path) {
  constexpr int64_t kPart = int64_t{1} << 20;
  const RandomAccessFileReader file(path);
  std::string part(static_cast<size_t>(std::min(kPart, file.size())), '\0');
  IncrementalXxh3Hasher hasher;
  for (int64_t at = 0; at < file.size(); at += kPart) {
    if (process::interrupted()) throw IoError("a signal ended the reading of '" + path.string() + "'");
    const int64_t bytes = std::min(kPart, file.size() - at);
    file.read(part.data(), bytes, at);
    hasher.add(part.data(), static_cast<size_t>(bytes));
  }
  return hasher.hex();
}

std::string machine(const std::string& device) {
  if (device == "cpu") return "CPU (" + std::to_string(std::thread::hardware_concurrency()) + " cores)";
  std::multiset<std::string> models;
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    for (const std::string& line : split(information_of(gpu), '\n'))
      if (line.starts_with("Model:")) models.insert(trim(line.substr(6)));
  }
  std::string text = device;
  for (const std::string& model : models) text += ", " + model;
  return text;
}

TrialKeyHasher::TrialKeyHasher(const plan::ModelAndInputSource& source, const plan::TrainingSettings& training,
                               const std::filesystem::path& program)
    : model_(source.path.empty() ? hash_hex(source.profile) : hash_file(source.path)),
      inputs_file_(source.inputs_file.empty() ? "" : hash_file(source.inputs_file)),
      program_(hash_file(program) + hash_if_there(program.parent_path() / device::kCudaModule)),
      machine_(machine(training.device)) {
  if (source.path.ends_with(".json"))
    for (const auto& weights : model::weight_files(source.path)) model_ += hash_file(weights);
  for (const std::string& library : source.libraries) model_ += hash_file(library);
  if (training.lora.empty()) return;
  const model::LoraConfig lora = model::parse_lora(training.lora);
  for (const auto& file : {lora.file, lora.weights})
    if (!file.empty()) model_ += hash_file(file);
}

std::string TrialKeyHasher::trial(const plan::TrialRequest& request) const {
  plan::TrialRequest content = request;
  content.model = {.arguments = request.model.arguments, .inputs = request.model.inputs};
  content.envelope.round = 0;
  content.envelope.gradients = false;
  content.envelope.reference = content.envelope.trace = content.envelope.command = "";
  const nlohmann::json key = {{"model", model_},     {"inputs_file", inputs_file_}, {"program", program_},
                              {"machine", machine_}, {"version", MEMTUNE_VERSION},  {"request", content}};
  return hash_hex(key.dump());
}

std::string TrialKeyHasher::setting(plan::TrialRequest request) const {
  request.plan = {};
  return trial(request);
}

}  // namespace memtune::sweep
