// A sweep of a synthetic model. memtune-fake-trial stands in for its trials.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/sweep/loop/sweep.h"
#include "tests/support/run_program.h"

namespace memtune::test {

struct SweepBench {
  struct Listener : sweep::SweepListener {
    void noted(const std::string& note) override { notes.push_back(note); }
    void planned(const std::vector<sweep::SweepTrialEntry>& trials, size_t here, size_t more) override {
      proposed.push_back(trials.size());
      reused = here, runs = more;
    }
    void save_started(const std::string& mode, size_t left) override {
      saves.push_back(mode + ", " + std::to_string(left) + " left");
    }
    void planning(size_t budget, size_t budgets) override {
      planned_on_paper.push_back(std::to_string(budget) + "/" + std::to_string(budgets));
    }
    std::vector<std::string> notes, saves, planned_on_paper;
    std::vector<size_t> proposed;  // trials so far
    size_t reused = 0, runs = 0;   // of the last call
  };

  ScratchFolder folder;
  Variable trial{"MEMTUNE_TRIAL", fake_trial()};
  Variable log{"FAKE_TRIAL_LOG", (folder.path / "starts").string()};
  sweep::EngineSweepSettings settings;
  Listener listener;

  explicit SweepBench(std::vector<std::string> strategies, int rounds = 1) {
    settings.model = "tiny";
    settings.request.model.profile = "{}";
    settings.request.model.inputs = {plan::parse_input_spec("tokens:int64[2,4]<8")};
    settings.strategies = std::move(strategies);
    settings.directory = folder.path / "run";
    settings.rounds = rounds;
  }

  // `behaviour` is the value of FAKE_TRIAL.
  sweep::SweepRecordAndReport run(const std::string& behaviour = "") {
    const Variable rules("FAKE_TRIAL", behaviour);
    return sweep::run_sweep(settings, listener);
  }

  // Returns the file that trials are compared with, or "" if there is none.
  std::filesystem::path reference() const {
    for (const auto& entry : std::filesystem::directory_iterator(settings.directory))
      if (entry.path().filename().string().starts_with("reference-")) return entry.path();
    return "";
  }

  // Returns the starts of the fake trial since the last call, one per line.
  std::string starts() const {
    std::string text = slurp(folder.path / "starts");
    std::filesystem::remove(folder.path / "starts");
    return text;
  }
};

}  // namespace memtune::test
