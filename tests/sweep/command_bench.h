// A sweep of a shell script that acts as a training command.
#pragma once

#include <fstream>
#include <string>

#include "core/base/error.h"
#include "core/sweep/commands/command_sweep.h"
#include "tests/attach/recorded.h"

namespace memtune::sweep {

// Sweeps a script and varies its first argument. The script logs each start in the file `starts`.
struct CommandBench {
  struct Listener : SweepListener {
    void planned(const std::vector<SweepTrialEntry>&, size_t here, size_t more) override { reused = here, runs = more; }
    size_t reused = 0, runs = 0;
  };

  test::ScratchFolder folder;
  CommandSweepSettings settings;
  Listener listener;

  // `script` can use $1 (the value), `train` and `finished`. A step of `train` takes its second argument plus the step
  // number, in ms.
  explicit CommandBench(const std::string& script, const std::string& axis = "ms=20;10;30") {
    write(script);
    settings.sweep.variants = expand({{"", {"sh", file(), "{ms}"}, "", ""}}, {parse_axis(axis)});
    settings.directory = folder.path / "run";
    settings.rounds = 1;
  }

  std::string file() const { return (folder.path / "train.sh").string(); }
  void write(const std::string& script) const {
    std::ofstream(file()) << tests::kTrain << "cd '" << folder.path.string() << "'; echo $1 >>starts\n" << script;
  }
  SweepRecordAndReport run() { return sweep_commands(settings, listener); }
  // Returns the starts since the last call.
  std::string starts() const {
    std::string text = test::slurp(folder.path / "starts");
    std::filesystem::remove(folder.path / "starts");
    return text;
  }
};

inline constexpr char kTrains[] = "train $$ $1 1 7; finished $$";

inline const result::TrialResultRow& row(const SweepRecordAndReport& result, const std::string& name) {
  for (const result::TrialResultRow& row : result.report.rows)
    if (row.measurement.strategy == name) return row;
  throw Error("no row " + name);
}

}  // namespace memtune::sweep
