#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/launched.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "cli/progress.h"
#include "core/base/bounds.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/torch_version.h"
#include "core/base/vocabulary.h"
#include "core/sweep/loop/training.h"

namespace memtune::cli {
namespace {

constexpr char kRunDescription[] =
    R"(Train under a strategy or plan, with saves to resume from.

Examples:
  memtune run --steps 100
  memtune run --steps 100 --save-every 10 --resume 40
  memtune run --model model.pt --input 'tokens:int64[4,4096]<32000' --loss next_token --steps 2000 --save-every 20
  memtune run --model model.pt --input 'tokens:int64[4,4096]<32000' --loss next_token --steps 2000 --save-every 20 --plan mine.json --keep-last 2 --resume
  memtune run --model tiny --device cpu --ranks 4 --steps 100 --save-every 10 --save overlapped --resume

A saved state holds parameters, buffers, optimizer states, random state and losses. A resumed run has the bits of one
that was never stopped. Python's safetensors and torch.distributed.checkpoint read a state. SIGTERM and Ctrl-C save and
end. Exit codes: 0 done, 1 the training or a save failed, 2 usage, 130 stopped.)";

struct RunFlags {
  ModelFlags model;
  std::string strategy, plan, save_every = "0", save = "sync", keep_last = "0", resume, json;
  bool resumes = false;
};

// Prints each save on its own line.
class RunProgress final : public Progress {
 public:
  using Progress::Progress;
  void phase(const sweep::TrialPhaseProgress& phase) override {
    if (phase.name == "saved") return noted(phase.note);
    Progress::phase(phase);
  }
};

sweep::ResumableTrainingSettings settings_of(const RunFlags& flags) {
  constexpr int64_t kMaxSteps = kMaxCount;
  if (!flags.strategy.empty() && !flags.plan.empty())
    throw UsageError("--strategy and --plan exclude each other: run trains under one");
  check_output("--json", flags.json);
  sweep::ResumableTrainingSettings settings;
  settings.save_every = integer_flag("--save-every", flags.save_every, 0, kMaxSteps);
  settings.save = choice_flag("--save", flags.save, kSaveModes);
  settings.keep_last = integer_flag("--keep-last", flags.keep_last, 0, kMaxSteps);
  settings.resume = flags.resumes;
  if (!flags.resume.empty()) settings.from = integer_flag("--resume", flags.resume, 0, kMaxSteps);
  std::vector<plan::HandWrittenPlanFile> plans;
  if (!flags.plan.empty()) plans.emplace_back(flags.plan);
  settings.sweep = flags.model.settings();
  if (flags.model.training.optimizer_in_backward)
    throw UsageError("--optimizer-in-backward is for sweep and profile only: run saves states between two updates");
  settings.sweep.plans = plans;
  if (plans.empty()) settings.sweep.strategies = {flags.strategy.empty() ? "none" : flags.strategy};
  return settings;
}

// "8 steps on CPU: loss 5.5567 to 5.5491, 12 ms a step, 21000 tokens/s; 2 saves, 14 ms each".
std::string summary(const result::ResumableTrainingResult& training) {
  const auto number = [](double value) { return fixed(value, digits_for(std::abs(value))); };
  std::string text = std::to_string(training.loss.size()) + " steps on " + training.device;
  if (training.first_step > 0) text += ", the first " + std::to_string(training.first_step) + " from an earlier run";
  if (!training.loss.empty()) text += ": loss " + number(training.loss.front()) + " to " + number(training.loss.back());
  if (training.step_ms > 0) text += ", " + ms_text(training.step_ms) + " a step";
  if (training.tokens_per_s > 0) text += ", " + fixed(training.tokens_per_s, 0) + " tokens/s";
  double blocked_ms = 0;
  size_t saved = 0;
  for (const result::SingleStateSaveRecord& save : training.saves)
    if (save.error.empty()) blocked_ms += save.blocked_ms, ++saved;
  if (saved > 0)
    text += "; " + std::to_string(saved) + (saved == 1 ? " save, " : " saves, ") +
            ms_text(blocked_ms / static_cast<double>(saved)) + " each";
  return text + "\n";
}

bool failed(const result::SingleStateSaveRecord& save) { return !save.error.empty(); }

// Message: "2 of 5 saves failed, the last that of step 8: cannot write ...".
void throw_if_saves_failed(const result::ResumableTrainingResult& training) {
  const auto& saves = training.saves;
  const auto count = std::ranges::count_if(saves, failed);
  if (count == 0) return;
  const result::SingleStateSaveRecord& last = *std::find_if(saves.rbegin(), saves.rend(), failed);
  throw Error(std::to_string(count) + " of " + std::to_string(saves.size()) + " saves failed, the last that of step " +
              std::to_string(last.step) + ": " + last.error);
}

int tell(const RunFlags& flags, const result::ResumableTrainingResult& training) {
  if (!flags.json.empty()) write_output(flags.json, nlohmann::json(training).dump(1, '\t') + "\n");
  if (flags.json != "-") write_output("-", summary(training));
  if (!training.deterministic)
    say(flags.model.console, "an op of this model has no deterministic kernel: a resumed run may differ in bits");
  const bool goes_on_from_here = training.saves.empty() || !failed(training.saves.back());
  if (!training.stopped || !goes_on_from_here) throw_if_saves_failed(training);
  if (!training.stopped) return kDone;
  say(flags.model.console, "stopped; run the same command with --resume to continue");
  return kInterrupted;
}

int run_command(const RunFlags& flags) {
  const sweep::ResumableTrainingSettings settings = settings_of(flags);
  refuse_launched(settings.sweep.request.training, "run starts its ranks itself: use --ranks N");
  RunProgress progress(flags.model.console);
  progress.started(
      {flags.plan.empty() ? settings.sweep.strategies.front() : settings.sweep.plans.front().name(), {}, {}, "", ""},
      1);
  const sweep::TrialAnswer answer = sweep::train(settings, progress);
  progress.clear();
  if (const auto* training = std::get_if<result::ResumableTrainingResult>(&answer)) {
    const bool untested = settings.sweep.request.training.device != "cpu" && !untested_on_gpu(training->torch).empty();
    say(flags.model.console, "engine: PyTorch " + training->torch + (untested ? ", untested on GPU" : ""));
    return tell(flags, *training);
  }
  if (const auto* problem = std::get_if<sweep::ReceivedUsageError>(&answer)) throw UsageError(problem->message);
  const auto* failure = std::get_if<sweep::ProcessFailure>(&answer);
  if (failure && failure->outcome == result::TrialOutcome::interrupted) return kInterrupted;
  throw Error(failure ? failure->reason : "memtune-trial gave another answer than a training's");
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", kRunDescription);
  flags->model.add_to(*command, "./memtune-training");
  flags->model.ranks.add_to(*command);
  for (const char* of_trials : {"--warmup", "--timeout"}) command->remove_option(command->get_option(of_trials));
  command->get_option("--steps")->description("the number of the last step (default: 5)");
  add_list(*command, "--batch", flags->model.batches, "batch size")->type_name("N")->expected(1);
  add_list(*command, "--seq", flags->model.sequences, "sequence length")->type_name("N")->expected(1);
  offer(command->add_option("--strategy", flags->strategy, "strategy (default: none)"), strategy_words())
      ->type_name("SPEC");
  command->add_option("--plan", flags->plan, "file with a plan of yours, instead of a strategy")->type_name("FILE");
  command->add_option("--save-every", flags->save_every, "save every N steps (default: no saves)")->type_name("N");
  offer(command->add_option("--save", flags->save,
                            "what training waits for: sync: the disk (default), async: a copy in host memory, "
                            "overlapped: almost nothing"),
        kSaveModes)
      ->type_name("HOW");
  command->add_option("--keep-last", flags->keep_last, "saved states to keep (default: all)")->type_name("N");
  const auto resume = [flags = flags.get()](const std::string& given) {
    flags->resumes = true;
    flags->resume = given;
  };
  command
      ->add_option_function<std::string>("--resume", resume,
                                         "resume from the newest saved state, or from that of a step")
      ->expected(0, 1)
      ->type_name("[STEP]");
  command->add_option("--json", flags->json, "write losses and saves as JSON; - is stdout")->type_name("FILE|-");
  put_under(kModelOptions, *command, {"--batch", "--seq"});
  put_under(kTrials, *command, {"--strategy", "--plan"});
  put_under(kTraining, *command, {"--steps"});
  put_under(kAnswer, *command, {"--save-every", "--save", "--keep-last", "--resume", "--json"});
  command->callback([flags, &action] { action = [flags] { return run_command(*flags); }; });
}

}  // namespace memtune::cli
