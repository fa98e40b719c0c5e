#include "core/sweep/loop/inspection.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace memtune::sweep {
namespace {

using nlohmann::json;

std::optional<ModelInspectionResult> read(const std::filesystem::path& path, FileSystem& files) try {
  const json value = parse_json(read_file(path, files));
  return ModelInspectionResult{value.at("facts").get<plan::ProgramFacts>(), value.at("inputs"), value.at("loss"),
                               value.at("origin").get<trace::RunProvenance>()};
} catch (const std::exception&) {  // missing or damaged: the model is inspected again
  return {};
}

void write(const std::filesystem::path& path, const ModelInspectionResult& facts, FileSystem& files) {
  const json value = {
      {"facts", facts.program}, {"inputs", facts.inputs}, {"loss", facts.loss}, {"origin", facts.origin}};
  write_file(path, value.dump(1, '\t', false, json::error_handler_t::replace) + "\n", files);
}

}  // namespace

TrialAnswer inspect(const plan::TrialRequest& request, const std::string& key, const RunDirectory& directory,
                    std::span<const std::filesystem::path> others, std::chrono::milliseconds limit,
                    const std::function<void(const TrialPhaseProgress&)>& progress, PrestartedTrialProcess* spare) {
  const std::filesystem::path in_run = std::filesystem::path("inspect") / key.substr(0, 8);
  const std::filesystem::path folder = std::filesystem::absolute(directory / in_run);
  if (std::optional<ModelInspectionResult> known = read(folder / "facts.json", directory.files()))
    return std::move(*known);
  make_folders(folder, directory.files());
  for (const std::filesystem::path& run : others) {
    ConfinedFileSystem files(run);
    std::optional<ModelInspectionResult> known = read(run / in_run / "facts.json", files);
    if (!known) continue;
    write(folder / "facts.json", *known, directory.files());
    return std::move(*known);
  }
  write_file(folder / "request.json", json(request).dump(1, '\t') + "\n", directory.files());
  TrialProcessSettings command{
      {"inspect", (folder / "request.json").string()}, folder / "log.txt", limit, progress, &directory.files()};
  command.spare = spare;
  TrialAnswer answer = run_trial_process(command);
  if (const auto* facts = std::get_if<ModelInspectionResult>(&answer))
    write(folder / "facts.json", *facts, directory.files());
  return answer;
}

namespace {

int64_t state_of_all_ranks(const plan::TrainingSettings& training, const plan::ProgramFacts& facts) {
  const int64_t with_gradients = facts.parameter_bytes + facts.trained_bytes;
  if (training.optimizer == "adamw") return with_gradients + 2 * facts.trained_bytes;
  const bool all = facts.trained_bytes == facts.parameter_bytes;
  const int64_t trained = all ? facts.parameters : facts.trained_bytes / 4;  // adapters are float32
  if (training.optimizer == "adamw_8bit") return with_gradients + 2 * trained + 6 * facts.trained_embeddings;
  if (training.optimizer == "adamw_32bit") return with_gradients + 8 * trained;
  return with_gradients;  // paged moments are in host memory, adafactor's are small, sgd has none
}

}  // namespace

int64_t state_bytes(const plan::TrainingSettings& training, const plan::ProgramFacts& facts) {
  return state_of_all_ranks(training, facts) / training.ranks;
}

void check_limits(const plan::TrainingSettings& training, int64_t budget_bytes, const ModelInspectionResult& facts) {
  const int64_t parameters = facts.program.parameter_bytes / training.ranks;
  for (const auto& [flag, bytes] :
       {std::pair("--memory-cap: ", training.memory_cap_bytes), std::pair("--budget: ", budget_bytes)})
    if (bytes > 0 && bytes < parameters)
      throw UsageError(flag + format_bytes(bytes) + " is less than the parameters alone, which take " +
                       format_bytes(parameters) + " under every strategy but those with states=host; a step holds " +
                       format_bytes(state_bytes(training, facts.program)) + " with gradients and the states of " +
                       training.optimizer + ", plus activations" +
                       (training.ranks == 1 ? "; try --strategy checkpoint:full+states=host" : ""));
}

}  // namespace memtune::sweep
