// A sweep folder with recorded costs, for plans without a model.
#pragma once

#include <nlohmann/json.hpp>

#include "core/answer/run/run_directory.h"
#include "core/base/file.h"
#include "core/plan/planner/step_predictor.h"
#include "tests/planner/costs.h"
#include "tests/support/run_program.h"

namespace memtune::test {

// A decoder of six blocks, measured only under none.
struct PaperRun : Workspace {
  explicit PaperRun(const std::string& device = "", const std::string& model = "paper.pt", double samples = 0) {
    const sweep::RunDirectory run(folder.path / "memtune-run");
    sweep::SweepJsonSettingsFactsAndTrials record;
    record.model = model;
    record.facts.program = decoder(6);
    plan::RecordedStepCosts costs = step_of(record.facts.program, decoder_ms(record.facts.program));
    costs.out_gb_per_s = costs.in_gb_per_s = 25;
    costs.gradient_bytes.assign(costs.moments.size() + 1, 0);
    record.trials = {{"none", {}, {}, "key", "trials/1-none"}};
    std::filesystem::create_directories(run / "trials/1-none");
    result::TrialMeasurement none;
    none.strategy = "none";
    none.device = device;
    none.step_ms = result::summarize({costs.step_ms});
    none.samples_per_s = samples / costs.step_ms * 1000;
    none.peak_bytes.allocated = planner::StepPredictor(record.facts.program, costs).predict({}).peak_bytes;
    run.write_measurement("trials/1-none", none);
    write_file(run / "trials/1-none/costs.json", nlohmann::json(costs).dump());
    run.write_record(record);
  }
};

}  // namespace memtune::test
