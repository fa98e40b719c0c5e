#include "core/record/measurement/training.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"

namespace memtune::result {

using nlohmann::json;

void to_json(json& out, const SingleStateSaveRecord& save) {
  out = {{"step", save.step}, {"blocked_ms", save.blocked_ms}, {"durable_ms", save.durable_ms}, {"bytes", save.bytes}};
  if (!save.error.empty()) out["error"] = save.error;
}

void from_json(const json& in, SingleStateSaveRecord& save) {
  save = {whole_at(in, "step", 0), number_at(in, "blocked_ms", 0, kMaxFigure),
          number_at(in, "durable_ms", 0, kMaxFigure), whole_at(in, "bytes", 0, kMaxBytes), in.value("error", "")};
}

void to_json(json& out, const ResumableTrainingResult& training) {
  out = {{"device", training.device},
         {"torch", training.torch},
         {"first_step", training.first_step},
         {"loss", training.loss},
         {"saves", training.saves},
         {"times_ms", training.times_ms},
         {"step_ms", training.step_ms},
         {"save_host_bytes", training.save_host_bytes},
         {"save_prepare_ms", training.save_prepare_ms},
         {"samples_per_s", training.samples_per_s},
         {"tokens_per_s", training.tokens_per_s},
         {"deterministic", training.deterministic},
         {"stopped", training.stopped}};
}

void from_json(const json& in, ResumableTrainingResult& training) {
  training = {};
  training.device = in.at("device");
  training.torch = in.at("torch");
  training.first_step = whole_at(in, "first_step", 0);
  for (const json& loss : in.at("loss")) training.loss.push_back(number_or_nan(loss));
  training.saves = in.at("saves").get<std::vector<SingleStateSaveRecord>>();
  try {
    for (const json& time : in.at("times_ms")) training.times_ms.push_back(number(time, 0, kMaxFigure));
  } catch (const json::exception& why) {
    throw UsageError(std::string("times_ms: ") + why.what());
  }
  training.step_ms = number_at(in, "step_ms", 0, kMaxFigure);
  training.save_host_bytes = whole_at(in, "save_host_bytes", 0, kMaxBytes);
  training.save_prepare_ms = number_at(in, "save_prepare_ms", 0, kMaxFigure);
  training.samples_per_s = number_at(in, "samples_per_s", 0, kMaxFigure);
  training.tokens_per_s = number_at(in, "tokens_per_s", 0, kMaxFigure);
  training.deterministic = in.at("deterministic");
  training.stopped = in.at("stopped");
}

}  // namespace memtune::result
