// A trial process knows only its request. A lost field would change what is measured.
#include "core/plan/request/trial_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/plan/request/resumable_training_request.h"

namespace memtune::trial_request_test {

using namespace memtune;
using namespace memtune::plan;
using nlohmann::json;

namespace {

TrialRequest example() {
  TrialRequest request;
  request.model = {"model.pt", "{}", {"steps=3"}, {"/lib/ops.so"}};
  request.model.inputs = {parse_input_spec("tokens:int64[2,64]<256"), parse_input_spec(":float32[]")};
  request.model.inputs_file = "sample.safetensors";
  request.training = {"mse",      "chunked=8", "logits", "labels", "sgd", 0.5, 0.75,       false, 6,
                      "bfloat16", "float16",   "r=4",    "4bit",   11,    12,  13,         14,    "cuda:1",
                      15,         "eager",     true,     0,        "h.*", 16,  17,         1,     "never",
                      "",         "",          false,    20,       18,    19,  "/scratch", true};
  request.plan.strategy = "none";
  request.plan.placements = {{1, "a", {TensorPlacement::host}, TensorPlacement::keep}};
  request.envelope.reference = "reference.bin";
  request.envelope.trace = "trace.bin";
  request.envelope.costs = "costs.json";
  request.envelope.command = "memtune sweep";
  return request;
}

template <typename Change>
void check_refused(Change change, const std::string& message) {
  TrainingSettings training;
  change(training);
  CHECK_THROWS_WITH_AS(check_training(training), message.c_str(), UsageError);
}

// Files of finished sweeps and the process that reads a request depend on these names.
constexpr const char* kRequestText =
    R"({"address":"10.0.0.1","allocator":"expandable_segments:True","command":"memtune sweep","costs":"costs.json","gradients":true,"inputs":["tokens:int64[2,64]<256",)"
    R"(":float32[]"],"inputs_file":"in.safetensors","model":{"arguments":["steps=3"],"libraries":["ops.so"],)"
    R"("path":"model.pt","profile":"","text_only":false,"trusted":false},"only_gradients":true,"plan":{"nested":false,)"
    R"("placements":[],"saved_min_bytes":1048576,"strategy":"none","transfer":{"groups_in_flight":1,"min_bytes":1048576,)"
    R"("pinned":true,"prefetch_blocks":1,"prefetch_bytes":1073741824,"schedule":"value","side_stream":true,)"
    R"("stash_bytes":8589934592},"version":1},"rank":1,"reference":"reference.bin","rendezvous":"/run/meeting",)"
    R"("round":1,"trace":"t.mttrace","training":{"accumulate":1,"attention":"sdpa","autocast":"","batch":2,)"
    R"("blocks":"","device":"cpu","disk_budget_bytes":0,"dtype":"float32","host_budget_bytes":0,)"
    R"("learning_rate":0.5,"load_in":"","lora":"","loss":"causal_lm","loss_impl":"plain","max_grad_norm":0.0,)"
    R"("memory_cap_bytes":0,"optimizer":"adamw","optimizer_in_backward":false,"output":"","pack":false,)"
    R"("padding":0.0,"rank_timeout_ms":120000,"ranks":2,"reduce_dtype":"","reshard":"always","scratch":"",)"
    R"("scratch_in_memory":false,"seed":0,"sequence":64,"shard_dtype":"","shard_offload":false,"steps":2,)"
    R"("target":"","traced_steps":3,"warmup":2}})";

}  // namespace

TEST_CASE("a request read from JSON is written with the same names and values") {
  const auto request = nlohmann::json::parse(kRequestText).get<TrialRequest>();
  CHECK(nlohmann::json(request).dump() == kRequestText);
}

TEST_CASE("every field of a request is read back from its file") {
  const json written = example();
  const TrialRequest request = json::parse(written.dump()).get<TrialRequest>();
  CHECK(json(request) == written);
  CHECK(request.model.path == "model.pt");
  CHECK(request.model.profile == "{}");
  REQUIRE(request.model.inputs.size() == 2);
  CHECK(request.model.inputs[0].below == 256);
  CHECK(request.model.inputs_file == "sample.safetensors");
  CHECK(request.plan.placements.size() == 1);
  CHECK(request.envelope.reference == "reference.bin");
  CHECK(request.envelope.trace == "trace.bin");
  CHECK(request.envelope.costs == "costs.json");
  CHECK(request.envelope.command == "memtune sweep");
}

TEST_CASE("every training setting is read back from the file of a request") {
  const TrainingSettings training = json(example()).get<TrialRequest>().training;
  CHECK(training.loss == "mse");
  CHECK(training.loss_impl == "chunked=8");
  CHECK(training.target == "labels");
  CHECK(training.optimizer == "sgd");
  CHECK(training.learning_rate == 0.5);
  CHECK(training.max_grad_norm == 0.75);
  CHECK(training.accumulate == 6);
  CHECK(training.dtype == "bfloat16");
  CHECK(training.autocast == "float16");
  CHECK(training.lora == "r=4");
  CHECK(training.load_in == "4bit");
  CHECK(training.seed == 11);
  CHECK(training.steps == 12);
  CHECK(training.warmup == 13);
  CHECK(training.traced_steps == 14);
  CHECK(training.device == "cuda:1");
  CHECK(training.memory_cap_bytes == 15);
  CHECK(training.attention == "eager");
  CHECK(training.pack);
  CHECK(training.blocks == "h.*");
  CHECK(training.batch == 16);
  CHECK(training.sequence == 17);
  CHECK(training.reshard == "never");
  CHECK(training.rank_timeout_ms == 20);
  CHECK(training.host_budget_bytes == 18);
  CHECK(training.disk_budget_bytes == 19);
  CHECK(training.scratch == "/scratch");
  CHECK(training.scratch_in_memory);
}

TEST_CASE("a rank's request has its rank and the number of ranks and the rendezvous") {
  TrialRequest request;
  request.training.ranks = 4;
  request.envelope.rank = 3;
  request.envelope.rendezvous = "/run/meeting";
  request.envelope.address = "10.0.0.1";
  request.training.shard_dtype = "float32";
  request.training.reduce_dtype = "float64";
  request.training.shard_offload = true;
  const TrialRequest read = json::parse(json(request).dump()).get<TrialRequest>();
  CHECK(read.training.ranks == 4);
  CHECK(read.envelope.rank == 3);
  CHECK(read.envelope.rendezvous == "/run/meeting");
  CHECK(read.envelope.address == "10.0.0.1");
  CHECK(read.training.shard_dtype == "float32");
  CHECK(read.training.reduce_dtype == "float64");
  CHECK(read.training.shard_offload);
  request.envelope.rank = 4;
  CHECK_THROWS_AS(json(request).get<TrialRequest>(), UsageError);
}

TEST_CASE("the shard and reduce dtypes of several ranks must be the same in a resumed run") {
  TrialRequest request;
  CHECK_FALSE(resume_settings(request.model, request.training).contains("--shard-dtype"));
  CHECK_FALSE(resume_settings(request.model, request.training).contains("--reduce-dtype"));
  request.training.ranks = 2;
  request.training.shard_dtype = "float32";
  request.training.reduce_dtype = "float64";
  CHECK(resume_settings(request.model, request.training).at("--shard-dtype") == "float32");
  CHECK(resume_settings(request.model, request.training).at("--reduce-dtype") == "float64");
  CHECK(resume_settings(request.model, request.training).at("--dtype").empty());
}

TEST_CASE("a flag that several ranks do not support is refused by name") {
  const auto refused = [](auto change, const std::string& message) {
    check_refused(
        [&](TrainingSettings& training) {
          training.ranks = 2;
          change(training);
        },
        "--ranks 2: " + message);
  };
  refused([](TrainingSettings& t) { t.optimizer = "adafactor"; },
          "--optimizer adafactor is not sharded; adamw and sgd are");
  refused([](TrainingSettings& t) { t.optimizer_in_backward = true; },
          "--optimizer-in-backward does not go with several ranks");
  refused([](TrainingSettings& t) { t.pack = true; }, "--pack does not go with several ranks");
  refused([](TrainingSettings& t) { t.padding = 0.25; }, "--padding does not go with several ranks");
  check_refused([](TrainingSettings& t) { t.ranks = 0; }, "ranks must be at least 1, not 0");
  check_refused([](TrainingSettings& t) { t.shard_offload = true; },
                "--shard-offload is for parameters sharded over several ranks: set --ranks");
}

TEST_CASE("an optimizer in backward excludes gradient clipping and accumulation") {
  TrialRequest request;
  request.training.optimizer_in_backward = true;
  CHECK(json::parse(json(request).dump()).get<TrialRequest>().training.optimizer_in_backward);
  check_refused(
      [](auto& training) {
        training.optimizer_in_backward = true;
        training.accumulate = 2;
      },
      "--optimizer-in-backward frees each gradient at once: neither --accumulate nor --max-grad-norm, which need all "
      "of "
      "them, goes with it");
}

TEST_CASE("flash-varlen needs packed rows in half precision on CUDA and padding excludes packing") {
  TrialRequest request;
  request.training.padding = 0.25;
  CHECK(json::parse(json(request).dump()).get<TrialRequest>().training.padding == 0.25);
  check_refused([](auto& training) { training.padding = 0.6; },
                "padding is a part of the batch from 0 to 0.5, not 0.600000");
  check_refused(
      [](auto& training) {
        training.padding = 0.1;
        training.pack = true;
      },
      "--pack and --padding exclude each other: a packed row has no padding");
  const auto flash = [](const char* device, const char* dtype, const char* autocast) {
    TrainingSettings training;
    training.attention = "flash-varlen";
    training.pack = true;
    training.device = device;
    training.dtype = dtype;
    training.autocast = autocast;
    check_training(training);
  };
  CHECK_NOTHROW(flash("cuda", "bf16", ""));
  CHECK_NOTHROW(flash("cuda:1", "float32", "float16"));
  CHECK_THROWS_WITH_AS(flash("cpu", "bfloat16", ""),
                       "--attention flash-varlen needs a CUDA device: its kernels are for no other", UsageError);
  CHECK_THROWS_WITH_AS(
      flash("cuda", "float32", ""),
      "--attention flash-varlen takes bfloat16 or float16, not float32: say --dtype bf16 or --autocast bf16",
      UsageError);
}

TEST_CASE("a field that a request leaves out has its default") {
  const TrialRequest request = json::parse(R"({"model": {}, "training": {}})").get<TrialRequest>();
  CHECK(request.training.optimizer == "adamw");
  CHECK(request.training.device == "cpu");
  CHECK(request.model.inputs.empty());
  CHECK(request.plan.keeps_everything());
}

TEST_CASE("default training settings and every form of a device are valid") {
  TrainingSettings training;
  for (const std::string device : {"cpu", "cuda", "cuda:0", "cuda:12"}) {
    training.device = device;
    CHECK_NOTHROW(check_training(training));
  }
}

TEST_CASE("a wrong training setting is refused with the valid ones") {
  check_refused([](auto& training) { training.loss = "nexttoken"; },
                "unknown loss 'nexttoken'; did you mean 'next_token'? Known: next_token, causal_lm, cross_entropy, "
                "mse, returned, dpo, kto, grpo, reward, embedding");
  check_refused([](auto& training) { training.loss_impl = "chunked"; },
                "--loss-impl 'chunked': known are plain, fused, and chunked=N for N chunks");
  check_refused([](auto& training) { training.optimizer = "adam"; },
                "unknown optimizer 'adam'; did you mean 'adamw'? Known: adamw, adamw_8bit, "
                "adamw_32bit, paged_adamw_32bit, paged_adamw_8bit, adafactor, sgd");
  check_refused([](auto& training) { training.steps = 0; }, "steps must be at least 1, not 0");
  check_refused([](auto& training) { training.steps = -3; }, "steps must be at least 1, not -3");
  check_refused([](auto& training) { training.host_budget_bytes = -1; }, "host budget must be at least 0, not -1");
  check_refused([](auto& training) { training.disk_budget_bytes = -1; }, "disk budget must be at least 0, not -1");
  check_refused([](auto& training) { training.warmup = -1; }, "warmup must be at least 0, not -1");
  check_refused([](auto& training) { training.learning_rate = -1; },
                "learning rate must be a finite number of at least 0, not -1.000000");
  check_refused([](auto& training) { training.accumulate = 0; }, "accumulate must be at least 1, not 0");
  check_refused([](auto& training) { training.max_grad_norm = -1; },
                "the norm that gradients are clipped to must be a finite number of at least 0, not -1.000000");
  check_refused([](auto& training) { training.dtype = "int8"; },
                "dtype 'int8' is not a floating-point one; parameters can be float32, float64, float16, bfloat16");
  check_refused([](auto& training) { training.autocast = "float64"; },
                "unknown autocast dtype 'float64'; did you mean 'float16'? Known: bfloat16, float16");
}

TEST_CASE("a wrong device is refused") {
  TrainingSettings training;
  for (const std::string device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1000", ""}) {
    training.device = device;
    CHECK_THROWS_AS(check_training(training), UsageError);
  }
}

TEST_CASE("an error in a request names field and value") {
  CHECK_THROWS_WITH_AS(json::parse(R"({"training": {}})").get<TrialRequest>(), "request.model is missing", UsageError);
  CHECK_THROWS_WITH_AS(json::parse(R"({"model": {}, "training": {"steps": "5"}})").get<TrialRequest>(),
                       "request.training.steps must be an integer, not \"5\"", UsageError);
}

TEST_CASE("fields of a later version are ignored everywhere in a request") {
  const json now = TrialRequest{};
  json later = now;
  later["later"] = later["model"]["later"] = later["training"]["later"] = 1;
  later["plan"]["later"] = later["plan"]["transfer"]["later"] = 1;
  CHECK(json(later.get<TrialRequest>()) == now);
}

}  // namespace memtune::trial_request_test
