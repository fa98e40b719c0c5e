#include "core/result/training.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/json.h"

namespace memtune::result {

using nlohmann::json;

void to_json(json& out, const SavedStep& save) {
  out = {{"step", save.step}, {"blocked_ms", save.blocked_ms}, {"durable_ms", save.durable_ms}, {"bytes", save.bytes}};
  if (!save.error.empty()) out["error"] = save.error;
}

void from_json(const json& in, SavedStep& save) {
  save = {whole(in.at("step"), 0), in.at("blocked_ms"), in.at("durable_ms"), whole(in.at("bytes"), 0),
          in.value("error", "")};
}

void to_json(json& out, const TrainingResult& training) {
  out = {{"device", training.device},
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

void from_json(const json& in, TrainingResult& training) {
  training = {};
  training.device = in.at("device");
  training.first_step = whole(in.at("first_step"), 0);
  for (const json& loss : in.at("loss"))
    training.loss.push_back(loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>());
  training.saves = in.at("saves").get<std::vector<SavedStep>>();
  training.times_ms = in.at("times_ms").get<std::vector<double>>();
  training.step_ms = in.at("step_ms");
  training.save_host_bytes = whole(in.at("save_host_bytes"), 0);
  training.save_prepare_ms = in.at("save_prepare_ms");
  training.samples_per_s = in.at("samples_per_s");
  training.tokens_per_s = in.at("tokens_per_s");
  training.deterministic = in.at("deterministic");
  training.stopped = in.at("stopped");
}

}  // namespace memtune::result
