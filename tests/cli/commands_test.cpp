// The program as a user sees it: what each command prints, on which stream, and its exit code.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/plan/facts/machine_profile.h"
#include "tests/attach/recorded.h"
#include "tests/pt2/made_up_zip.h"
#include "tests/support/run_program.h"

namespace memtune::commands_test {

using memtune::join;
using memtune::kSaveModes;
using memtune::test::Ended;
using memtune::test::slurp;
using memtune::test::Workspace;
using nlohmann::json;

TEST_CASE("sweep without --model names the default model and prints a table and the next commands") {
  const Workspace place;
  const Ended ended = place.memtune("sweep --sweep quick --rounds 2");
  CHECK(ended.code == 0);
  CHECK(ended.out.find("checkpoint:full") != std::string::npos);
  CHECK(ended.out.find("Recommended: none") != std::string::npos);
  CHECK(ended.out.find('\x1b') == std::string::npos);
  CHECK(ended.err ==
        "no --model: using the built-in profile 'small', a small decoder\n"
        "[1/6] none  100.0 ms, 32 GiB\n"
        "[2/6] checkpoint:full  125.0 ms, 8 GiB\n"
        "[3/6] offload:stream  110.0 ms, 12 GiB\n"
        "[4/6] none, round 2  100.0 ms, 32 GiB\n"
        "[5/6] checkpoint:full, round 2  125.0 ms, 8 GiB\n"
        "[6/6] offload:stream, round 2  110.0 ms, 12 GiB\n"
        "next: memtune view\n");
}

TEST_CASE("sweep names what the trainer keys achieve and how to export the plan if no key expresses it") {
  const Workspace place;
  const Ended ended = place.memtune("sweep --sweep quick --rounds 1 --budget 20GiB");
  CHECK(ended.code == 0);
  CHECK(ended.out.find("Recommended: offload:stream") != std::string::npos);
  CHECK(ended.err.find("next: memtune export --trainer NAME writes the keys of your trainer\n"
                       "  or: memtune export --trainer python -o memtune_plan.py writes offload:stream, 110 ms at 12 "
                       "GiB\n"
                       "  or: memtune view\n") != std::string::npos);
}

TEST_CASE("sweep -q leaves stderr empty and --json - prints only JSON to stdout") {
  const Workspace place;
  const Ended ended = place.memtune("sweep -q --model tiny --sweep quick --json - --csv table.csv");
  CHECK(ended.code == 0);
  CHECK(ended.err == "");
  const json answer = json::parse(ended.out);
  CHECK(answer.at("trials").size() == 3);
  CHECK(answer.at("trials")[0].at("strategy") == "none");
  CHECK(answer.at("recommendation").at("fits") == true);
  CHECK(memtune::test::count_lines(slurp(place.folder.path / "table.csv")) == 4);
}

TEST_CASE("a budget changes the recommendation and a budget too small fails with the smallest trial") {
  const Workspace place;
  const std::string sweep = "sweep --sweep quick --rounds 1 ";
  const json tight = json::parse(place.memtune(sweep + "-q --budget 12GiB --json -").out);
  CHECK(tight.at("recommendation").at("strategy") == "offload:stream");
  const Ended none = place.memtune(sweep + "--budget 1GiB --json -");
  CHECK(none.code == 1);
  const json answer = json::parse(none.out);
  CHECK(answer.at("recommendation").at("fits") == false);
  for (const json& trial : answer.at("trials")) CHECK(trial.at("recommended") == false);
  CHECK(none.err.find("next: a larger --budget, or a smaller --batch or --seq\n") != std::string::npos);
  CHECK(none.err.find("export") == std::string::npos);
  const Ended refused = place.memtune("export --trainer axolotl");
  CHECK(refused.code == 2);
  CHECK(
      refused.err ==
      "memtune: there is no recommendation: nothing fits 1 GiB: the least that works is checkpoint:full with 8 GiB\n");
  CHECK(place.starts() == "inspect\nnone\ncheckpoint:full\noffload:stream\n");
}

TEST_CASE("strategies are given repeatedly or separated and may contain commas") {
  const Workspace place;
  const Ended ended =
      place.memtune("sweep -q --dry-run --strategy 'none; checkpoint:full,inputs=host' --strategy offload:sync");
  CHECK(ended.out == "none\ncheckpoint:full,inputs=host\noffload:sync\n");
}

TEST_CASE("all or the named save modes are measured and the best is recommended with its interval") {
  const Workspace place;
  const Ended all = place.memtune("sweep --strategy none --rounds 1 --saves --mtbf 12h --json answer.json");
  CHECK(all.code == 0);
  std::string starts = "inspect\nnone\n";
  for (const std::string& mode : kSaveModes) starts += "save " + mode + " under none\n";
  CHECK(place.starts() == starts);
  const json saving = json::parse(slurp(place.folder.path / "answer.json")).at("saving");
  CHECK(saving.at("mtbf_s") == 43200);
  const std::string advice = " Saving: with a failure every 12 h: " + saving.at("mode").get<std::string>() + " every " +
                             std::to_string(saving.at("every_steps").get<int64_t>()) + " steps";
  CHECK_MESSAGE(all.out.find(advice) != std::string::npos, all.out);
  CHECK(all.err.find("saving, " + kSaveModes.front() + "  blocked 1000 ms") != std::string::npos);
  CHECK(place.memtune("report").out.find(advice) != std::string::npos);
  CHECK(place.memtune("export --trainer torchtitan").out.find("config.checkpoint.keep_latest_k = 2\n") !=
        std::string::npos);
  const Workspace other;
  other.memtune("sweep --strategy none --rounds 1 --saves " + kSaveModes.back() + " --keep-last 5");
  CHECK(other.starts() == "inspect\nnone\nsave " + kSaveModes.back() + " under none\n");
}

TEST_CASE("wrong save options are refused before anything runs") {
  const Workspace place;
  CHECK(place.memtune("sweep --mtbf 12h").err == "memtune: --mtbf is about saves: it goes with --saves\n");
  CHECK(place.memtune("sweep --keep-last 3").err == "memtune: --keep-last is about saves: it goes with --saves\n");
  CHECK(place.memtune("sweep --saves asyn").err.find("--saves: unknown value 'asyn'; did you mean 'async'?") !=
        std::string::npos);
  CHECK(place.memtune("sweep --saves --mtbf soon").err.find("--mtbf: 'soon' is no time") != std::string::npos);
  CHECK(place.memtune("export --trainer megatron --into tests.yaml").code == 2);
  CHECK(place.starts() == "");
}

TEST_CASE("an answer stays until another question is answered") {
  const Workspace place;
  const auto model = [&] { return json::parse(place.memtune("report --format json").out).at("model"); };
  CHECK(place.memtune("sweep --strategy none --rounds 1").code == 0);
  CHECK(model() == "small (profile)");
  CHECK(place.memtune("sweep --model tiny --strategy none", "none=crash").code == 1);
  CHECK(place.memtune("sweep -- ./no-such-program").code == 2);
  CHECK(place.memtune("sweep -- sh -c 'exit 3'").code == 1);
  CHECK(place.memtune("sweep --model tiny --dry-run").code == 0);
  CHECK(model() == "small (profile)");
  CHECK(place.memtune("sweep --model tiny --strategy none --rounds 1 --retry").code == 0);
  CHECK(model() == "tiny (profile)");
  const Ended first = place.memtune("sweep --strategy none --rounds 1");
  CHECK(first.err.find("continuing: 1 of 1 trials are already done") != std::string::npos);
  CHECK(model() == "small (profile)");
}

TEST_CASE("a sweep in which nothing works fails and says where to look") {
  const Workspace place;
  const Ended ended = place.memtune("sweep --strategy none", "none=crash");
  CHECK(ended.code == 1);
  CHECK(ended.out.find("SIGSEGV") != std::string::npos);
  CHECK(ended.err.find("next: memtune doctor; logs are in ./memtune-runs/small-profile-") != std::string::npos);
  CHECK(ended.err.ends_with("/trials/*/log.txt\n"));
  CHECK(place.memtune("report").out.find("SIGSEGV") != std::string::npos);  // nothing better is there
  const Ended full = place.memtune("sweep --model tiny --strategy none", "none=device_oom");
  CHECK(full.err.find("next: a larger --memory-cap or device, or a smaller --batch or --seq\n") != std::string::npos);
}

TEST_CASE("a strategy with wrong gradients is listed as a mismatch and never recommended") {
  const Workspace place;
  const Ended ended = place.memtune("sweep -q --sweep quick --budget 8GiB", "checkpoint:full=differs");
  CHECK(ended.out.find("✗ checkpoint:full  mismatch: gradients differ from none's\n") != std::string::npos);
  CHECK(ended.out.find(" No recommendation: nothing fits 8 GiB: the least that works is offload:stream with 12 GiB") !=
        std::string::npos);
}

TEST_CASE("report prints a sweep again in every format") {
  const Workspace place;
  const Ended sweep = place.memtune("sweep -q --sweep quick --json -");
  CHECK(json::parse(place.memtune("report --format json -q").out) == json::parse(sweep.out));
  CHECK(place.memtune("report").out.find("Recommended: none") != std::string::npos);
  CHECK(memtune::test::count_lines(place.memtune("report ./memtune-run --format csv").out) == 4);
  const Ended perfetto = place.memtune("report --format perfetto --trial offload:stream -o trace.json");
  CHECK(perfetto.err == "next: open trace.json in ui.perfetto.dev\n");
  CHECK(json::parse(slurp(place.folder.path / "trace.json")).contains("traceEvents"));
}

TEST_CASE("report writes a page and a memory snapshot into the sweep folder or to the given file") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick");
  CHECK(place.memtune("report --html").err == "next: open ./memtune-run/report.html in a browser\n");
  const std::string page = slurp(place.folder.path / "memtune-run/report.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(place.memtune("report -q --html page.html").out == "");
  CHECK(slurp(place.folder.path / "page.html") == page);
  CHECK(place.memtune("report -q --format html -o -").out == page);
  CHECK(place.memtune("report -q --format memory-snapshot").code == 0);
  const std::string pickle = slurp(place.folder.path / "memtune-run/trials/1-none/memory-snapshot.pickle");
  CHECK(pickle.starts_with("\x80\x02"));
  CHECK(place.memtune("report -q --format memory-snapshot --trial none -o -").out == pickle);
  CHECK(place.memtune("report --format markdown").out.find("**Recommended:** none") != std::string::npos);
  CHECK(place.memtune("report --format pareto").out.find(" * a  none") != std::string::npos);
}

TEST_CASE("a folder after --html is the sweep and not the output") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick --out other");
  CHECK(place.memtune("report --html other").err == "next: open other/report.html in a browser\n");
}

TEST_CASE("the page is written even if a trace cannot be read") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick");
  std::ofstream(place.folder.path / "memtune-run/trials/1-none/trace.mttrace") << "rubbish";
  const Ended ended = place.memtune("report --html");
  CHECK(ended.code == 0);
  CHECK(ended.err.find("; the page has no memory chart of it\n") != std::string::npos);
}

TEST_CASE("export writes the recommended or the named strategy") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick");
  const Ended named = place.memtune("export --trainer torchtune --strategy checkpoint:full -o tune.yaml");
  CHECK(named.code == 0);
  CHECK(slurp(place.folder.path / "tune.yaml").find("enable_activation_checkpointing: true") != std::string::npos);
  CHECK(place.memtune("export --trainer torchtune").out.find("enable_activation_checkpointing: false") !=
        std::string::npos);
  const Ended merged = place.memtune("export --trainer torchtune --into tune.yaml -o new.yaml");
  CHECK(merged.code == 0);
  const std::string both = slurp(place.folder.path / "new.yaml");
  CHECK(both.find("enable_activation_checkpointing: false") != std::string::npos);
  CHECK(both.find("enable_activation_checkpointing: true") == std::string::npos);
  CHECK(place.memtune("export --trainer torchtune --into nothing.yaml").code == 2);
}

TEST_CASE("the user's config is overwritten only with --in-place") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick");
  const std::filesystem::path mine = place.folder.path / "mine.yaml", link = place.folder.path / "link.yaml";
  const std::string own = "seed: 1  # mine\n";
  std::ofstream(mine) << own;
  std::filesystem::create_hard_link(mine, link);
  const std::string into = "export --trainer trl --into mine.yaml";
  for (const char* output : {" -o mine.yaml", " -o ./mine.yaml", " -o link.yaml"}) {
    const Ended refused = place.memtune(into + output);
    CHECK(refused.code == 2);
    CHECK(refused.err.find("overwritten with --in-place only") != std::string::npos);
  }
  CHECK(place.memtune(into + " --in-place -o other.yaml").code == 2);
  CHECK(place.memtune("export --trainer trl --in-place").code == 2);
  CHECK(slurp(mine) == own);
  CHECK(place.memtune(into).out.find(own) != std::string::npos);
  CHECK(slurp(mine) == own);
  const Ended written = place.memtune(into + " --in-place");
  CHECK(written.out.empty());
  CHECK(written.err.find("mine.yaml has other names (hard links), which keep the old text\n") != std::string::npos);
  CHECK(slurp(link) == own);
  CHECK(place.memtune(into + " --in-place").err.find("hard links") == std::string::npos);
  CHECK(slurp(mine).starts_with(own));
  CHECK(slurp(mine).find("gradient_checkpointing: false") != std::string::npos);
}

TEST_CASE("export --check reports the strategy and measurement and problems of a config") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick");
  std::ofstream(place.folder.path / "mine.yaml") << "gradient_checkpointing: true\n";
  const Ended right = place.memtune("export --trainer transformers --check mine.yaml");
  CHECK(right.code == 0);
  CHECK(right.out.find("it amounts to checkpoint:full (gradient_checkpointing: true)\nmeasured as checkpoint:full in "
                       "./memtune-run: step ") == 0);
  std::ofstream(place.folder.path / "mine.yaml") << "gradient_checkpointing_kwargs: {every_n_layer: 2}\n";
  const Ended wrong = place.memtune("export nothing --trainer transformers --check mine.yaml");
  CHECK(wrong.code == 1);
  CHECK(wrong.out ==
        "mine.yaml:1: unused key gradient_checkpointing_kwargs.every_n_layer; did you mean every_n_layers?\n"
        "it amounts to none (gradient_checkpointing: false by default)\nnot measured: there is no sweep in nothing\n");
  CHECK(place.memtune("export --trainer transformers --check no.yaml").code == 2);
  CHECK(place.memtune("export --trainer transformers --check mine.yaml --into mine.yaml").code == 2);
  CHECK(place.memtune("export --trainer transformers --trainer-version new").code == 2);
}

TEST_CASE("diff compares two sweeps also as JSON and fails only beyond a limit") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick --out before");
  place.memtune("sweep -q --sweep quick --out other --steps 3");
  CHECK(place.memtune("diff before other").err.starts_with("settings differ: A "));
  place.memtune("sweep -q --sweep quick --out after", "offload:stream=crash");
  place.memtune("report -q before --format json -o before.json");
  const Ended ended = place.memtune("diff before.json after --fail-if 'peak>+2%'");
  CHECK(ended.code == 1);
  CHECK(ended.err == "offload:stream: worked in A, fails in B\n");
  CHECK(place.memtune("diff before.json before --fail-if 'peak>+2%'").code == 0);
  CHECK(json::parse(place.memtune("diff before after --format json").out).at("trials").size() == 3);
}

TEST_CASE("a page beside a run is written there alone whatever links a stranger has put there") {
  const Workspace place;
  place.memtune("sweep -q --strategy none --out run");
  const auto mine = place.folder.path / "mine";
  std::ofstream(mine) << "mine";
  std::filesystem::create_symlink(mine, place.folder.path / "run/report.html");
  const Ended ended = place.memtune("report run --html");
  CHECK(slurp(mine) == "mine");
  CHECK(ended.code == 1);
  CHECK(ended.err.find("it leads out of its folder") != std::string::npos);
  CHECK(place.memtune("report run --html own.html").code == 0);
}

TEST_CASE("diff of different models fails") {
  const Workspace place;
  place.memtune("sweep -q --strategy none --out one");
  place.memtune("sweep -q --model tiny --batch 3 --strategy none --out other");
  const Ended ended = place.memtune("diff one other");
  CHECK(ended.code == 2);
  CHECK(ended.out == "");
  CHECK(ended.err.find("two models: A is small (profile), B is tiny (profile); --any-model compares") !=
        std::string::npos);
  const Ended asked = place.memtune("diff one other --any-model");
  CHECK(asked.code == 0);
  CHECK(asked.err.find("models differ: A small (profile); B tiny (profile)") != std::string::npos);
}

TEST_CASE("a PyTorch release whose engines never ran on a GPU is named by answers on CUDA alone") {
  const Workspace place;
  const std::string note = "note: PyTorch 2.15: untested on GPU\n";
  CHECK(place.memtune("sweep -q --sweep quick --device cuda").out.find("untested") == std::string::npos);
  const test::Variable newer("FAKE_TORCH", "2.15.0");
  CHECK(place.memtune("sweep -q --sweep quick --device cuda --out newer").out.find(note) != std::string::npos);
  CHECK(place.memtune("report newer").out.find(note) != std::string::npos);
  CHECK(place.memtune("export newer --trainer torchtune").out.find("PyTorch 2.15: untested on GPU") !=
        std::string::npos);
  CHECK(place.memtune("sweep -q --sweep quick --device cpu --out cpu").out.find("untested") == std::string::npos);
}

TEST_CASE("diff names the PyTorch releases of two sweeps if the minor releases differ") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick --out before");
  const test::Variable newer("FAKE_TORCH", "2.15.0");
  place.memtune("sweep -q --sweep quick --out after");
  CHECK(place.memtune("diff before after").err.starts_with("PyTorch releases differ: A 2.11; B 2.15\n"));
  CHECK(place.memtune("diff after after").err.starts_with("next: "));
}

TEST_CASE("profile runs its strategy every time and prints the path of the trace") {
  const Workspace place;
  place.memtune("profile --strategy checkpoint:full");
  const Ended ended = place.memtune("profile --strategy checkpoint:full");
  CHECK(ended.code == 0);
  CHECK(ended.err.find("trace: ./memtune-profiles/small-profile-") != std::string::npos);
  CHECK(ended.err.find("/trials/1-checkpoint-full/trace.mttrace\nnext: memtune view ./memtune-profile\n") !=
        std::string::npos);
  CHECK(std::filesystem::exists(place.folder.path / "memtune-profile/trials/1-checkpoint-full/trace.mttrace"));
  CHECK(place.starts() == "inspect\ncheckpoint:full\ncheckpoint:full\n");
}

TEST_CASE("the words after -- are a command with its own flags and need no trial program") {
  const Workspace place;
  const Ended ended = place.memtune("profile -q --json answer.json -- sh -c 'echo \"$1\"; exit 3' sh --batch");
  CHECK(ended.code == 1);
  CHECK(ended.out.find("✗ command  error: ended with exit code 3") != std::string::npos);
  CHECK(slurp(place.folder.path / "memtune-profile/trials/1-command/log.txt") == "--batch\n");
  const json trial = json::parse(slurp(place.folder.path / "answer.json")).at("trials").at(0);
  CHECK(trial.at("outcome") == "error");
  CHECK(trial.at("step_ms").at("samples").empty());
  CHECK(place.starts().empty());
  CHECK(place.memtune("profile --help").out.find("Usage: memtune profile [OPTIONS] [-- COMMAND...]\n") !=
        std::string::npos);
}

TEST_CASE("a user's plan is swept and profiled like a strategy") {
  const Workspace place;
  std::ofstream(place.folder.path / "mine.json")
      << R"({"version": 1, "strategy": "checkpoint:op", "rules": [{"op": "attention", "outputs": "host"}]})";
  CHECK(place.memtune("sweep -q --rounds 1 --strategy none --plan mine.json").out.find("\n • mine ") !=
        std::string::npos);
  CHECK(place.memtune("profile -q --plan mine.json").code == 0);
  CHECK(place.starts() == "inspect\nnone\nmine\ninspect\nmine\n");
}

TEST_CASE("plan validate describes a plan and with a model counts its values") {
  const Workspace place;
  std::ofstream(place.folder.path / "mine.json")
      << R"({"version": 1, "strategy": "checkpoint:op", "rules": [{"op": "attention", "blocks": "0-1", "outputs": "host"}]})";
  const Ended alone = place.memtune("plan validate mine.json");
  CHECK(alone.out == "mine: a valid plan\n");
  CHECK(alone.err == "next: add --model to see what it does\n");
  CHECK(place.starts() == "");
  const Ended ended = place.memtune("plan validate mine.json --model tiny");
  CHECK(ended.code == 0);
  CHECK(ended.out ==
        "mine on tiny (profile): activations that backward needs\n\n"
        "  blocks   keep   recompute   host\n"
        "  0-1      2      1           1\n"
        "  2-3      3      1           –\n"
        "  behind   2      –           –\n"
        "  all      12     4           2\n");
  CHECK(place.starts() == "inspect\n");
}

TEST_CASE("budgets and scratch folder of offloading are passed to the trials") {
  const Workspace place;
  place.memtune(
      "profile -q --strategy offload:stream,tier=disk --scratch . --host-budget 1GiB --disk-budget 2GiB "
      "--scratch-in-memory");
  const json request =
      json::parse(slurp(place.folder.path / "memtune-profile/trials/1-offload-stream-tier-disk/request.json"));
  CHECK(request.at("training").at("host_budget_bytes") == int64_t{1} << 30);
  CHECK(request.at("training").at("disk_budget_bytes") == int64_t{2} << 30);
  CHECK(request.at("training").at("scratch_in_memory") == true);
  CHECK(std::filesystem::path(request.at("training").at("scratch").get<std::string>()).is_absolute());
}

TEST_CASE("--trust-model is passed to the trial") {
  const Workspace place;
  std::ofstream(place.folder.path / "model.pt") << memtune::test::zip({{"constants.pkl", "x"}, {"code/a.py", "x"}});
  for (const std::string flag : {"", "--trust-model "}) {
    const std::string out = flag.empty() ? "a" : "b";
    CHECK(place.memtune("sweep -q --model model.pt --loss mse --strategy none " + flag + "--out " + out).code == 0);
    const json request = json::parse(slurp(place.folder.path / out / "trials/1-none/request.json"));
    CHECK(request.at("model").at("trusted") == !flag.empty());
  }
}

TEST_CASE("a folder does not hide the profile of the same name") {
  const Workspace place;
  std::filesystem::create_directory(place.folder.path / "tiny");
  CHECK(place.memtune("sweep -q --model tiny --strategy none").code == 0);
}

TEST_CASE("strategies lists every strategy with its parameters") {
  const Workspace place;
  CHECK(place.memtune("strategies").out.find("offload:stream\n") != std::string::npos);
  const json list = json::parse(place.memtune("strategies --json").out).at("strategies");
  CHECK(list.at(0).at("name") == "none");
  CHECK(list.at(1).at("parameters").size() > 0);
  CHECK(list.back().at("name") == "offload:swift");
  CHECK(list.back().at("engine") == "ms-swift 4.6.0");
}

TEST_CASE("doctor reports what is present and what is missing and how to fix it") {
  const Workspace place;
  const Ended ended = place.memtune("doctor");
  CHECK(ended.code == 0);
  CHECK(ended.out.find("warn  CUPTI          not found\n") != std::string::npos);
  CHECK(ended.out.find("-> install it\n") != std::string::npos);
  const Ended broken = place.memtune("doctor --json", "doctor=crash");
  CHECK(broken.code == 1);
  CHECK(json::parse(broken.out).at("checks").back().at("status") == "fail");
}

TEST_CASE("doctor --probe measures the machine and writes a machine profile") {
  const Workspace place;
  const Ended shown = place.memtune("doctor --probe --device cpu");
  CHECK(shown.code == 0);
  CHECK(shown.out.find("bfloat16       100.0 TFLOP/s\n") != std::string::npos);
  CHECK(shown.out.find("memory         64 GiB\n") != std::string::npos);
  CHECK(shown.out.find("link") == std::string::npos);
  CHECK(shown.err ==
        "measuring a synthetic machine\nnext: memtune plan --from RUN --machine FILE, which --write makes\n");
  const Ended written = place.memtune("doctor --probe --device cpu -q --write here.json --json");
  CHECK(written.code == 0);
  CHECK(written.out == slurp(place.folder.path / "here.json"));
  CHECK(memtune::plan::find_machine((place.folder.path / "here.json").string()).tflops.at("bfloat16") == 100);
  const Ended twice = place.memtune("doctor --probe --device cpu --write - --json -");
  CHECK(twice.code == 2);
  CHECK(twice.out.empty());
  CHECK(twice.err == "memtune: --write - and --json - both want stdout: name a file for one of them\n");
  CHECK(place.memtune("sweep -q --model tiny --json - --csv -").code == 2);
  const Ended no_disk = place.memtune("doctor --probe --device cpu --scratch /no/such/folder");
  CHECK(no_disk.code == 2);
  CHECK(no_disk.err.find("measuring a synthetic machine") == std::string::npos);  // the measurement would be useless
  const Ended broken = place.memtune("doctor --probe --device cpu --write there.json", "probe=crash");
  CHECK(broken.code == 1);
  CHECK(broken.err.find("the probe: ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(place.folder.path / "there.json"));
}

TEST_CASE("a sweep needs no temporary folder for any TMPDIR") {
  const Workspace place;
  for (const char* path : {"/no/such/folder", "/proc", ""}) {
    const memtune::test::Variable variable("TMPDIR", path);
    CHECK(place.memtune("sweep -q --strategy none --out run").code == 0);
    CHECK(place.memtune("report -q run").code == 0);
    CHECK(place.memtune("doctor -q").code == 0);
  }
}

TEST_CASE("help starts with examples and --version prints one line") {
  const Workspace place;
  CHECK(place.memtune("--version").out == "memtune 0.1.0\n");
  for (const char* command : {"", "sweep", "profile", "strategies", "plan", "report", "export", "diff", "doctor"}) {
    const Ended help = place.memtune(std::string(command) + " --help");
    CHECK(help.code == 0);
    const size_t examples = help.out.find("Examples:\n  memtune");
    REQUIRE(examples != std::string::npos);
    CHECK(examples < help.out.find("--help"));
  }
}

TEST_CASE("every report has its command and date and machine and those that measured its trials") {
  const Workspace place;
  const Ended sweep = place.memtune("sweep -q --model tiny --sweep quick --json -");
  const json origin = json::parse(sweep.out).at("origin");
  CHECK(origin.at("command") == "memtune sweep -q --model tiny --sweep quick --json -");
  CHECK(origin.at("torch") == "2.11.0");
  CHECK(origin.at("machine") == "a made-up machine");
  CHECK(origin.at("written").get<std::string>().size() == 20);
  place.memtune("sweep -q --model tiny --sweep quick");
  CHECK(json::parse(place.memtune("report --format json").out).at("origin") == origin);
  place.memtune("sweep -q --model tiny --strategy none --strategy checkpoint:op");
  CHECK(place.memtune("report -q").out.find("\n $ memtune sweep -q --model tiny --strategy none --strategy") !=
        std::string::npos);
  const json notes = json::parse(place.memtune("report --format json").out).at("notes");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == "1 of 2 trials was measured by another command: " + origin.at("command").get<std::string>());
  place.memtune("sweep -q --model tiny --sweep quick --goal memory");
  const json again = json::parse(place.memtune("report --format json").out);
  CHECK(again.at("origin").at("command") == "memtune sweep -q --model tiny --sweep quick --goal memory");
  CHECK(again.at("notes") ==
        json::array({"3 of 3 trials were measured by another command: " + origin.at("command").get<std::string>()}));
}

TEST_CASE("the settings have the measured and warm-up steps in words") {
  const Workspace place;
  const Ended sweep = place.memtune("sweep -q --model tiny --strategy none --steps 1 --warmup 3 --rounds 1 --json -");
  CHECK(json::parse(sweep.out).at("settings").get<std::string>().ends_with(", 1 measured step after 3 warm-up steps"));
}

TEST_CASE("a dry run prints the trials and the minimum memory of a step") {
  const Workspace place;
  const Ended ended = place.memtune("sweep --dry-run --strategy 'none;checkpoint:full' --rounds 2");
  CHECK(ended.out == "none\ncheckpoint:full\n");
  CHECK(ended.err.find("saves") == std::string::npos);
  const Ended saving = place.memtune("sweep --dry-run --strategy 'none;checkpoint:full' --rounds 2 --saves");
  CHECK(saving.out == ended.out);
  CHECK(saving.err.find("; then saves are measured under the recommended one (" + join(kSaveModes, ", ") +
                        "), which needs disk space for two states of about 11.72 KiB each in ./memtune-runs/small-") !=
        std::string::npos);
  CHECK_MESSAGE(ended.err.find("2 trials in 2 rounds; parameters, all gradients and the states of adamw take ") !=
                    std::string::npos,
                ended.err);
  const auto rounds = [&](const std::string& device) {
    return place.memtune("sweep --dry-run --strategy none --device " + device).err;
  };
  CHECK(rounds("cuda").find("1 trials in 3 rounds") != std::string::npos);
  CHECK(rounds("cpu").find("1 trials in 1 rounds") != std::string::npos);
}

TEST_CASE("a trial without a trace is reported when its trace is requested") {
  const Workspace place;
  std::ofstream(place.folder.path / "train.sh") << memtune::tests::kTrain << "train $$ 1 1 7; finished $$\n";
  CHECK(place.memtune("profile -q -- sh train.sh").code == 0);
  const Ended ended = place.memtune("report memtune-profile --format perfetto");
  CHECK(ended.code == 2);
  CHECK(ended.err == "memtune: command has no trace: its steps were not traced\n");
}

TEST_CASE("doctor reports what can be measured of a command and why nothing can") {
  const Workspace place;
  std::ofstream(place.folder.path / "train.sh") << memtune::tests::kTrain << "train $$ 1 1 3; finished $$\n";
  const Ended fine = place.memtune("doctor -q -- sh train.sh");
  CHECK(fine.code == 0);
  CHECK(fine.out.find("ok    command  its optimizer steps are seen\n") != std::string::npos);
  CHECK(fine.out.find("ok    PyTorch  2.11\n") != std::string::npos);
  CHECK(fine.out.find("warn  device   CPU (") != std::string::npos);
  CHECK(fine.out.find("ok    losses   3 of its first steps are read\n") != std::string::npos);
  const Ended none = place.memtune("doctor -q --json - -- true");
  CHECK(none.code == 1);
  const json check = json::parse(none.out).at("checks").at(0);
  CHECK(check.at("status") == "fail");
  CHECK(check.at("detail").get<std::string>().find("no Python process of it loaded") != std::string::npos);
}

}  // namespace memtune::commands_test
