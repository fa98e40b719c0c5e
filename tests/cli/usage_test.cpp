// Any mistyped argument gives one line with the problem and a fix, exit code 2, and no run.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/foreign_flags.h"
#include "tests/support/run_program.h"

namespace memtune::usage_test {

using memtune::test::count_lines;
using memtune::test::Ended;
using memtune::test::Workspace;

TEST_CASE("bad flags and values are refused in one line before anything runs") {
  const Workspace place;
  std::ofstream(place.folder.path / "text.pt") << "not a model";
  std::ofstream(place.folder.path / "empty.pt");
  std::ofstream(place.folder.path / "bad.json") << "{\"version\": 1, \"rules\": [{}]}";
  std::ofstream(place.folder.path / "prefer it.yaml") << "cpo_alpha: 2\n";
  std::ofstream(place.folder.path / "bare.yaml") << "output_dir: out\noptimizer: {_component_: torch.optim.AdamW}\n";
  std::ofstream(place.folder.path / "odd.yaml") << "per_device_train_batch_size: two\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sweep train.py",
       "unexpected argument 'train.py'; a script is measured as it is: memtune profile -- python train.py"},
      {"profile src/train.py", "memtune profile -- python src/train.py"},
      {"sweep --gradient-checkpointing",
       "unknown flag '--gradient-checkpointing'; did you mean '--strategy checkpoint:full'? memtune sweep --help"},
      {"sweep --gradient_checkpointing=true", "did you mean '--strategy checkpoint:full'?"},
      {"sweep --micro-batch-size 4", "did you mean '--batch'?"},
      {"sweep --per_device_train_batch_size 4", "did you mean '--batch'?"},
      {"report --micro-batch-size 4", "unknown flag '--micro-batch-size'; memtune report --help"},
      {"sweep --strategy offload",
       "'offload' is a family of strategies: offload:sync, offload:stream, offload:group, "},
      {"sweep --model nope.pt", "no such file or profile: 'nope.pt'"},
      {"sweep --model smal", "no such file or profile: 'smal'; did you mean 'small'? Profiles: "},
      {"sweep --model text.pt", "cannot use the model 'text.pt': it is no zip archive, so no TorchScript"},
      {"sweep --model empty.pt", "cannot use the model 'empty.pt': it is empty"},
      {"sweep --model .", "cannot use the model '.': it is a folder, not a TorchScript file"},
      {"sweep --budget '12 potatoes'", "--budget: "},
      {"sweep --budget 0GiB", "--budget: '0GiB' is zero; give a size such as 16GiB"},
      {"sweep --budget 16", "--budget: '16' has no unit; did you mean 16GiB? (16B is bytes)"},
      {"sweep --memory-cap 1.5", "--memory-cap: '1.5' has no unit; did you mean 1.5GiB?"},
      {"sweep --rounds 0", "--rounds: 0 is out of range; it takes 1 to 1000"},
      {"sweep --memory-cap -1GiB", "--memory-cap: "},
      {"sweep --steps -3", "--steps: -3 is out of range; it takes 1 to 1000000"},
      {"sweep --steps 0", "--steps: 0 is out of range"},
      {"sweep --steps five", "--steps: 'five'"},
      {"sweep --warmup -1", "--warmup: -1 is out of range; it takes 0 to 1000000"},
      {"sweep --lr -1", "--lr: -1 is negative"},
      {"sweep --model smal --json no/such/answer.json", "--json: no such folder: "},
      {"sweep --csv .", "--csv: . is a folder; name a file to write"},
      {"profile --json no/such/answer.json", "--json: no such folder: "},
      {"sweep --", "no command behind --; memtune sweep --try 'batch=4;8' -- python train.py --batch {batch}"},
      {"sweep --strategy none -- true",
       "--strategy is for models that memtune trains itself; a command behind -- has its own"},
      {"sweep --lora r=8 -- true", "--lora is for models that memtune trains itself; a command behind -- has its own"},
      {"sweep -- true {batch}", "the command has {batch}, and no --try 'batch=...' says what that is"},
      {"sweep --try batch=1 -- true", "--try batch: the command has no {batch}"},
      {"sweep --try batch -- true {batch}", "--try 'batch': write 'name=one;another', where the command has {name}"},
      {"sweep --try batch=1", "--try is for training commands: it goes with -- and a command"},
      {"sweep --show", "--show is for training commands: it goes with -- and a command"},
      {"profile --show", "--show is for training commands: it goes with -- and a command"},
      {"sweep --trainer trl",
       "--trainer goes with --config FILE, which says how it trains, or with its command behind --"},
      {"sweep --config bad.json", "--config goes with --trainer NAME, whose config it is"},
      {"sweep --trainer trl --config none.yaml", "--config: no such file: none.yaml"},
      {"sweep --model tiny --text-only", "--text-only is for models with a config.json"},
      {"sweep --trainer trl --config 'prefer it.yaml'",
       "cpo_alpha: of CPO or SimPO, not of SFT. Measure its own command instead: memtune sweep --trainer trl --config "
       "'prefer it.yaml' -- COMMAND"},
      {"sweep --trainer trl --config bare.yaml", "bare.yaml does not say which model it trains: --model does"},
      {"sweep --trainer torchtune --config bare.yaml --model small", "bare.yaml does not say how long a row is: --seq"},
      {"sweep --trainer trl --config odd.yaml", "odd.yaml: per_device_train_batch_size must be a whole number, not"},
      {"sweep --trainer deepspeed --config bad.json", "a config of deepspeed does not say which model it trains"},
      {"sweep --model acme/none", " No model of that name was downloaded to "},
      {"sweep --config bad.json -- true {config}",
       "--config and --allow go with --trainer NAME, whose settings they are about"},
      {"sweep --trainer trl --config bad.json -- true",
       "--config: the command has no {config}, which the path of each variant's config replaces"},
      {"sweep --trainer trl --config none.yaml -- true {config}", "--config: no such file: none.yaml"},
      {"sweep --trainer trl --config . -- true {config}", "--config: . is a folder; name the file in it"},
      {"sweep --out '' -- true", "--out: the folder's name is empty"},
      {"profile --out '' -- true", "--out: the folder's name is empty"},
      {"sweep --trainer nobodys --config bad.json -- true {config}", "unknown trainer"},
      {"sweep --trainer trl --config bad.json -- true {config}", "bad.json"},
      {"sweep --trainer trl -- true {config}",
       "--trainer without --config replaces the word {args} of the command by settings, and the command has none"},
      {"sweep --trainer trl --allow loss -- true {args}", "--allow: "},
      {"sweep --time-limit soon -- true", "--time-limit: "},
      {"sweep -- no-such-program", "cannot run 'no-such-program': no such program"},
      {"sweep -- ./bad.json", "cannot run './bad.json': it is no file that may be run"},
      {"profile -- ./", "cannot run './': it is no file that may be run"},
      {"doctor --", "no command behind --; memtune doctor -- python train.py looks at one"},
      {"doctor --scratch . -- true",
       "--scratch is about the machine: memtune doctor looks at that without -- and a command"},
      {"doctor --device cpu -- true",
       "--device is about the machine: memtune doctor looks at that without -- and a command"},
      {"profile --", "no command behind --; memtune profile -- python train.py measures one"},
      {"profile --batch 2 -- true",
       "--batch is for models that memtune trains itself; a command behind -- has its own"},
      {"profile --warmup 0 -- true", "--warmup: the start of a command's first step is not seen; it takes at least 1"},
      {"profile --json no/such/answer.json -- true", "--json: no such folder: "},
      {"profile -- no-such-program", "cannot run 'no-such-program': no such program"},
      {"doctor --json no/such/answer.json", "--json: no such folder: "},
      {"sweep --loss ce", "--loss: unknown value 'ce'; did you mean 'cross_entropy'?"},
      {"sweep --loss l1", "--loss: unknown value 'l1'. Known: next_token"},
      {"sweep --loss mes", "--loss: unknown value 'mes'; did you mean 'mse'?"},
      {"sweep --optimizer adam", "--optimizer: unknown value 'adam'; did you mean 'adamw'?"},
      {"sweep --dtype int64", "--dtype: unknown dtype 'int64'. Known: float32, float64, float16, bfloat16"},
      {"sweep --dtype bf17", "--dtype: "},
      {"sweep --padding 0.7", "--padding: 0.7 is out of range; it takes 0 to 0.5"},
      {"sweep --padding 0.7", "--padding: 0.7 is out of range; it takes 0 to 0.5"},
      {"sweep --attention flash", "--attention: unknown value 'flash'. Known: sdpa, eager, flash-varlen"},
      {"sweep --autocast fp32", "--autocast: unknown dtype 'fp32'. Known: bfloat16, float16"},
      {"sweep --device gpu", "--device: unknown device 'gpu'; it takes cpu, cuda or cuda:N"},
      {"sweep --goal speed", "unknown goal 'speed'"},
      {"sweep --batch 1,0", "--batch: 0 is out of range"},
      {"sweep --timeout soon", "--timeout: 'soon' is no time; give seconds, or 90s, 5m, 1h"},
      {"sweep --timeout 0", "--timeout: '0' is no time"},
      {"sweep --input 'tokens'", "tokens"},
      {"sweep --input 'x:float32[2]' --inputs a.safetensors", "--input and --inputs exclude each other"},
      {"sweep --inputs a.safetensors", "--inputs: no such file: a.safetensors"},
      {"sweep --strategy checkpoint:every=0", "every"},
      {"sweep --strategy offload:steam", "offload:stream"},
      {"sweep --strategy offload:stream,tier=disk", "'offload:stream,tier=disk' places values on disk: --scratch DIR"},
      {"sweep --scratch no/such", "--scratch: no such folder: no/such"},
      {"sweep --disk-budget 1GiB", "--disk-budget and --scratch-in-memory go with --scratch DIR, which is missing"},
      {"sweep --scratch-in-memory", "--disk-budget and --scratch-in-memory go with --scratch DIR, which is missing"},
      {"sweep --host-budget much", "--host-budget: "},
      {"sweep --plan bad.json", "bad.json: plan.rules[0] selects nothing"},
      {"sweep --plan nope.json", "--plan: no such file: nope.json"},
      {"profile --plan bad.json --strategy none", "--strategy and --plan exclude each other"},
      {"plan validate", "FILE is required"},
      {"plan", "plan: say validate FILE, or --from RUN"},
      {"plan validate bad.json --from run", "plan: validate and --from exclude each other"},
      {"plan --machine h200", "--machine is for predicted plans: it needs --from"},
      {"plan validate mine.json --write best.json", "--write is for predicted plans: it needs --from"},
      {"plan validate mine.json --budget 1GiB", "--budget is for predicted plans: it needs --from"},
      {"plan validate mine.json --from-machine h200", "--from-machine is for predicted plans: it needs --from"},
      {"plan --from nowhere --from-machine h200",
       "--from-machine names the machine that measured: it goes with --machine, the one to plan for"},
      {"doctor --write here.json", "--write writes what was measured: it goes with --probe"},
      {"doctor --probe --write no/such/here.json", "--write: no such folder: "},
      {"doctor --probe -- true", "--probe is about the machine: memtune doctor looks at that without -- and a command"},
      {"plan --from nowhere", "no sweep in nowhere (it has no sweep.json)"},
      {"plan --from nowhere --budget 1GiB --write - --json -",
       "--write - and --json - both want stdout: name a file for one of them"},
      {"plan --from nowhere --budget 1GiB --write no/such/plan.json", "--write: no such folder: "},
      {"plan --from nowhere --write best.json", "--write writes one plan: it goes with one --budget"},
      {"plan valdate bad.json", "plan: unknown value 'valdate'; did you mean 'validate'?"},
      {"plan validate bad.json", "bad.json: plan.rules[0] selects nothing"},
      {"sweep --sweep defalt", "did you mean 'default'?"},
      {"sweep --stpes 3", "unknown flag '--stpes'; did you mean '--steps'?"},
      {"sweep --steps", "--steps"},
      {"sweep surplus", "unexpected argument 'surplus'"},
      {"swep", "unknown command 'swep'; did you mean 'sweep'?"},
      {"help swep", "unknown command 'swep'; did you mean 'sweep'?"},
      {"-x", "a command comes first, not '-x'; memtune help lists them"},
      {"strategies checkpoint:opp", "did you mean 'checkpoint:op'?"},
      {"report", "no sweep in ./memtune-run"},
      {"report --format xml", "--format: unknown value 'xml'"},
      {"report --html --format csv", "--html and --format csv exclude each other"},
      {"report --html a.html -o b.html", "--html a.html and --output b.html name two files for one page"},
      {"report --format csv --trial none", "--trial goes with --format perfetto or memory-snapshot"},
      {"report -o .", ". is a folder; name a file to write"},
      {"report --html .", "no sweep in ."},
      {"diff", "A is required"},
      {"diff nowhere bad.json", "no sweep in nowhere"},
      {"diff bad.json bad.json", "bad.json is no report of memtune"},
      {"diff bad.json bad.json --fail-if 'peek>2%'", "'peek>2%' is no limit; it takes peak>+2%"},
      {"diff bad.json bad.json --fail-if 'step>+2GiB'", "'step>+2GiB': step has no limit in 'GiB'"},
      {"sweep --model tiny --out \"$(printf 'a\\377')\"", "a\xEF\xBF\xBD is no UTF-8"},
      {"export", "--trainer"},
      {"export --trainer torchtun", "unknown trainer 'torchtun'; did you mean 'torchtune'?"},
      {"export --trainer torchtune", "no sweep in ./memtune-run"},
  };
  for (const auto& [arguments, message] : cases) {
    CAPTURE(arguments);
    const Ended ended = place.memtune((arguments.starts_with("sweep") ? "sweep -q" + arguments.substr(5) : arguments));
    CHECK(ended.code == 2);
    CHECK(ended.out == "");
    CHECK_MESSAGE(ended.err.starts_with("memtune: "), ended.err);
    CHECK_MESSAGE(ended.err.find(message) != std::string::npos, ended.err);
    CHECK_MESSAGE(count_lines(ended.err) == 1, ended.err);
  }
  CHECK(place.starts() == "");
  CHECK_FALSE(std::filesystem::exists(place.folder.path / "memtune-run"));
}

TEST_CASE("the help goes to stderr without arguments") {
  const Workspace place;
  const Ended ended = place.memtune("");
  CHECK(ended.code == 2);
  CHECK(ended.err.find("Examples:") != std::string::npos);
}

TEST_CASE("report and export require an existing trial") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick", "offload:stream=device_oom");
  const Ended unknown = place.memtune("export --trainer torchtune --strategy checkpoint:op");
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("unknown trial 'checkpoint:op'") != std::string::npos);
  const Ended traceless = place.memtune("report --format perfetto --trial offload:stream");
  CHECK(traceless.code == 2);
  CHECK(traceless.err == "memtune: offload:stream has no trace: it ended in device_oom\n");
}

TEST_CASE("a failed write reports the reason") {
  const Workspace place;
  place.memtune("sweep -q --sweep quick");
  const Ended ended = place.memtune("report -q -o /no/such/folder/file");
  CHECK(ended.code == 1);
  CHECK(ended.err.find("/no/such/folder") != std::string::npos);
  CHECK(count_lines(ended.err) == 1);
}

TEST_CASE("memtune view without the viewer says how to build it") {
  const Workspace place;
  const std::string at = place.folder.path.string();
  std::filesystem::copy_file(memtune::test::program("memtune"), place.folder.path / "memtune");
  const int status = std::system((at + "/memtune view run 2>" + at + "/err").c_str());
  CHECK(WEXITSTATUS(status) == 2);
  const std::string said = memtune::test::slurp(place.folder.path / "err");
  CHECK_MESSAGE(said.starts_with("memtune: the viewer is not built: scripts/memtune view "), said);
  CHECK(count_lines(said) == 1);
}

TEST_CASE("flags of other tools lead to flags that sweep has") {
  const Workspace place;
  const std::string has = place.memtune("sweep --help-all").out;
  REQUIRE(cli::foreign_flags().size() > 60);
  for (const auto& [name, flag] : cli::foreign_flags()) {
    CAPTURE(name);
    const size_t end = flag.find(' ');
    CHECK(has.find(" " + flag.substr(0, end) + " ") != std::string::npos);
    const std::string said = place.memtune("sweep --" + name).err;
    const bool taken = has.find(" --" + name + " ") != std::string::npos;  // memtune's own flag of that name
    CHECK((taken || said.find("did you mean '" + flag + "'?") != std::string::npos));
    if (end == std::string::npos || flag == "--attention sdpa") continue;
    const Ended ended = place.memtune("sweep --dry-run --model tiny --device cpu " + flag +
                                      (flag.starts_with("--load-in") ? " --lora r=4" : ""));
    CHECK_MESSAGE(ended.code == 0, ended.err);
  }
  CHECK(cli::flag_for("--train_micro_batch_size_per_gpu") == "--batch");
  CHECK(cli::flag_for("--nothing-of-the-kind") == "");
}

}  // namespace memtune::usage_test
