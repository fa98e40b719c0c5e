// Why: a state that several ranks saved must continue the same training on any number of ranks. Every element of every
// parameter and optimizer state must return to its place.
#include <doctest/doctest.h>

#include "core/engine/state/atomic_saved_state_writer.h"
#include "core/engine/state/load.h"
#include "core/engine/state/write.h"
#include "core/measure/trial/training_state_collector_and_loader.h"
#include "tests/shard/sharded_training.h"
#include "tests/support/run_program.h"
#include "tests/support/state_runner.h"
namespace memtune::tests::sharded_state_test {
namespace {

constexpr DecoderSizes kSizes{97, 24, 2, 4, 2, 40, 8};
constexpr int kSteps = 3;

// Adds odd parameters: two with permuted strides (one of them with a dimension of size 1), a frozen one, an empty one
// and one with a single element.
void make_odd(program::Program& program) {
  auto& parameters = program.state.parameters;
  at::Tensor& turned = parameters.at(3).second;
  turned.set_data(turned.detach().t().contiguous().t());
  parameters.at(4).second.requires_grad_(false);
  at::Tensor deep = at::arange(60, at::kFloat).sin().reshape({3, 1, 4, 5}).permute({2, 1, 0, 3});
  parameters.emplace_back("deep", deep.contiguous().permute({1, 3, 0, 2}).requires_grad_());
  parameters.emplace_back("none", at::empty({0, 3}).requires_grad_());
  program.state.buffers.emplace_back("seen", at::zeros({3}));
  parameters.emplace_back("one", at::full({1}, 0.25).requires_grad_());
}

// The gradient of a whole parameter, with its strides. It differs in each step.
at::Tensor gradient_of(const std::string& name, const at::Tensor& parameter, int step) {
  at::Tensor values = at::arange(parameter.numel(), at::kDouble).add(static_cast<double>(name.size() + 1));
  values = values.mul(0.37 * (step + 1)).sin().to(parameter.scalar_type());
  at::Tensor gradient = at::empty_strided(parameter.sizes(), parameter.strides(), values.options());
  gradient.copy_(values.reshape(parameter.sizes()));
  return gradient;
}

// The elements of a whole tensor in memory order.
at::Tensor in_memory_order(const at::Tensor& values, const at::Tensor& like) {
  const at::Tensor laid = at::empty_strided(like.sizes(), like.strides(), values.options());
  laid.copy_(values);
  return laid.as_strided({laid.numel()}, {1});
}

using Numbers = std::map<std::string, at::Tensor>;  // whole tensors in memory order

// The model on one rank, or one rank's shards of it.
class Trained {
 public:
  // If shards are in CPU memory, they use a device of this object's own.
  Trained(const ShardedTraining& training, shard::Collectives* group,
          shard::ReshardDtypeAndOffloadOptions settings = {})
      : program_(training.program()), facts_(program::facts(program_, program::find_blocks(program_, ""))) {
    state_ = program_.state;
    if (group) {
      if (settings.host_of) settings.host_of = &*device_;
      sharded_.emplace(program_, facts_, *group, settings);
      state_.shards = sharded_->shards();
    }
    std::vector<at::Tensor> trained;
    for (const Held& held : helds()) trained.push_back(held.tensor);
    optimizer_ = optimizer::make_optimizer({"adamw", 0.01}, trained);
    runner_.emplace(state_, *device_);
    saved_.emplace(*runner_, *optimizer_);
  }

  void step(int number) {
    for (const Held& held : helds()) {
      if (!held.tensor.requires_grad()) continue;
      at::Tensor gradient = gradient_of(held.name, held.whole, number);
      if (sharded_) gradient = in_memory_order(gradient, held.whole).narrow(0, held.begin, held.tensor.numel()).clone();
      const_cast<at::Tensor&>(held.tensor).mutable_grad() = gradient.to(held.tensor.scalar_type());
    }
    optimizer_->step();
  }

  // The elements that this rank holds of each tensor, by index of the first element.
  std::map<std::string, std::map<int64_t, at::Tensor>> numbers() const {
    std::map<std::string, std::map<int64_t, at::Tensor>> numbers;
    const std::vector<Held> held = helds();
    for (size_t i = 0; i < held.size(); ++i) {
      const auto add = [&](const std::string& name, const at::Tensor& tensor) {
        const bool row = sharded_ || tensor.dim() == 0;
        numbers[name][tensor.dim() == 0 ? 0 : held[i].begin] =
            (row ? tensor.detach().flatten() : in_memory_order(tensor.detach(), held[i].whole)).clone();
      };
      add(held[i].name, held[i].tensor);
      for (const auto& [kind, tensor] : optimizer_->state(i)) add(held[i].name + " " + kind, tensor);
    }
    return numbers;
  }

  trial::TrainingStateCollectorAndLoader& saved() { return *saved_; }
  at::Tensor buffer() const { return state_.buffers.at(0).second; }

  void save(state::SavedStatesFolder& folder, int64_t step, const std::vector<state::TensorToSave>& more = {}) {
    const auto device = device::make_device("cpu");
    const auto buffer = device->allocate_host(state::kBufferBytes);
    const std::vector<double> losses(static_cast<size_t>(step), 0.5);
    std::vector<state::TensorToSave> parts = saved_->parts(losses);
    parts.insert(parts.end(), more.begin(), more.end());
    state::write(*device, step, parts, *buffer, folder);
  }

 private:
  struct Held {
    std::string name;
    at::Tensor tensor, whole;
    int64_t begin = 0;
  };
  std::vector<Held> helds() const {
    std::vector<Held> helds;
    std::map<std::string, at::Tensor> wholes;
    for (const auto& [name, parameter] : state_.parameters) {
      wholes[name] = parameter;
      if (!sharded_) helds.push_back({name, parameter, parameter});
    }
    if (sharded_)
      for (const program::ParameterShard& piece : state_.shards->pieces)
        helds.push_back({piece.name, piece.tensor, wholes.at(piece.name), piece.begin});
    return helds;
  }

  std::unique_ptr<device::Device> device_ = device::make_device("cpu");
  program::Program program_;
  plan::ProgramFacts facts_;
  program::ModelParametersAndBuffers state_;
  std::optional<shard::ShardedParameters> sharded_;
  std::unique_ptr<optimizer::Optimizer> optimizer_;
  std::optional<test::StateRunner> runner_;
  std::optional<trial::TrainingStateCollectorAndLoader> saved_;
};

struct Bench {
  ShardedTraining training{kSizes, make_odd};
  shard::ReshardDtypeAndOffloadOptions settings{};
  test::ScratchFolder scratch;
  std::mutex mutex;
  std::map<std::string, std::map<int64_t, at::Tensor>> parts;

  std::filesystem::path run(int ranks) const { return scratch.path / std::to_string(ranks); }

  void on(int ranks, const std::function<void(Trained&, state::SavedStatesFolder&)>& use) {
    parts.clear();
    const auto rank = [&](shard::Collectives* group) {
      std::optional<Trained> trained;
      {
        const std::lock_guard lock(mutex);  // all threads draw weights from one generator
        trained.emplace(training, group, settings);
      }
      state::SavedStatesFolder folder(run(ranks));
      folder.set_rank({group ? group->rank() : 0, ranks});
      std::filesystem::create_directories(folder.root());
      use(*trained, folder);
      const std::lock_guard lock(mutex);
      for (const auto& [name, of_name] : trained->numbers())
        for (const auto& [begin, numbers] : of_name) parts[name][begin] = numbers;
    };
    if (ranks == 1) return rank(nullptr);
    on_ranks(ranks, [&](shard::Collectives& group) {
      const at::Tensor all = at::empty({group.size()});
      group.all_gather(all, at::zeros({1}), "meeting")->wait();  // barrier: no rank ends before all have started
      rank(&group);
    });
  }

  Numbers joined() const {
    Numbers joined;
    for (const auto& [name, of_name] : parts) {
      std::vector<at::Tensor> rows;
      for (const auto& [begin, numbers] : of_name) rows.push_back(numbers);
      const at::Tensor row = at::cat(rows);
      if (!name.starts_with("none")) joined[name] = row;  // no rank has a piece of the empty tensor
    }
    return joined;
  }
};

std::string difference(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return std::to_string(a.size()) + " tensors, not " + std::to_string(b.size());
  for (const auto& [name, numbers] : a)
    if (const auto other = b.find(name); other == b.end() || !at::equal(numbers, other->second)) return name;
  return "";
}

TEST_CASE("a state saved on a GPU loads without it except for the GPU's random state") {
  Bench bench;
  const std::vector<char> numbers(16, 'r');
  const auto named = [&](const std::string& name) {
    state::TensorToSave part;
    part.spec = {name, safetensors::Dtype::u8, {16}};
    part.data = numbers.data();
    part.memory = numbers.data();
    return part;
  };
  bench.on(1, [&](Trained& trained, state::SavedStatesFolder& folder) {
    trained.step(0);
    trained.save(folder, 1, {named("random.cuda")});
    trained.save(folder, 2, {named("random.cuda"), named("other")});
  });
  const Numbers saved = bench.joined();
  bench.on(1, [](Trained& trained, state::SavedStatesFolder& folder) { trained.saved().load(folder, 1); });
  CHECK(difference(saved, bench.joined()) == "");
  bench.on(1, [](Trained& trained, state::SavedStatesFolder& folder) {
    CHECK_THROWS_WITH_AS(trained.saved().load(folder, 2),
                         "the saved state is of another model or training: 'other' is U8[16] there and nothing here",
                         UsageError);
  });
}

TEST_CASE("a state saved by any of 1 to 4 ranks loads on any of 1 to 4 ranks with the same bits and next step") {
  Bench bench;
  const auto train = [](Trained& trained, state::SavedStatesFolder& folder) {
    for (int i = 0; i < kSteps; ++i) trained.step(i);
    trained.save(folder, kSteps);
  };
  bench.on(1, train);
  const Numbers saved = bench.joined();
  bench.on(1, [](Trained& trained, state::SavedStatesFolder&) {
    for (int i = 0; i < kSteps + 1; ++i) trained.step(i);
  });
  const Numbers next = bench.joined();
  REQUIRE(saved.size() > 3 * 20);
  REQUIRE(difference(saved, next) != "");
  for (const int ranks : {2, 3, 4}) {
    bench.on(ranks, train);
    CHECK(difference(saved, bench.joined()) == "");
  }
  for (const int from : {1, 2, 3, 4})
    for (const int to : {1, 2, 3, 4}) {
      CAPTURE(from);
      CAPTURE(to);
      const auto load = [&](Trained& trained) {
        CHECK(trained.saved().load(state::SavedStatesFolder(bench.run(from)), {}) == std::vector<double>(kSteps, 0.5));
      };
      bench.on(to, [&](Trained& trained, state::SavedStatesFolder&) { load(trained); });
      CHECK(difference(saved, bench.joined()) == "");
      bench.on(to, [&](Trained& trained, state::SavedStatesFolder&) {
        load(trained);
        trained.step(kSteps);
      });
      CHECK(difference(next, bench.joined()) == "");
    }
}

TEST_CASE("a tensor that each rank has of its own is saved under its rank and the loss only once") {
  Bench bench;
  bench.on(3, [](Trained& trained, state::SavedStatesFolder& folder) { trained.save(folder, 1); });
  std::map<std::string, size_t> whole;
  state::load(state::SavedStatesFolder(bench.run(3)), {},
              {[&](const state::StateManifest& manifest) {
                 for (const auto& tensor : manifest.tensors)
                   if (!tensor.part) whole[tensor.name] = tensor.file;
               },
               {}});
  CHECK(whole.at("random.cpu") == 0);
  CHECK(whole.at("rank.2.random.cpu") == 2);
  CHECK(whole.at("run.loss") == 0);
  CHECK_FALSE(whole.contains("rank.1.run.loss"));
}

TEST_CASE("a buffer that differs by rank returns to its rank and additional ranks get the one of rank 0") {
  Bench bench;
  const auto number_of = [](const state::SavedStatesFolder& folder) {
    return static_cast<double>(10 + folder.rank().rank);
  };
  bench.on(3, [&](Trained& trained, state::SavedStatesFolder& folder) {
    trained.buffer().fill_(number_of(folder));
    trained.save(folder, 1);
  });
  for (const int ranks : {1, 2, 3, 4})
    bench.on(ranks, [&](Trained& trained, state::SavedStatesFolder& folder) {
      trained.saved().load(state::SavedStatesFolder(bench.run(3)), {});
      const double expected = folder.rank().rank < 3 ? number_of(folder) : 10.0;
      CHECK(trained.buffer().eq(expected).all().item<bool>());
    });
}

TEST_CASE("shards of another dtype and in CPU memory are saved as they are and load on other numbers of ranks") {
  constexpr int kSteps = 3;
  const auto device = device::make_device("cpu");
  Bench bench;
  bench.settings = {.dtype = at::kDouble, .host_of = &*device};
  bench.on(3, [](Trained& trained, state::SavedStatesFolder& folder) {
    for (int i = 0; i < kSteps; ++i) trained.step(i);
    trained.save(folder, kSteps);
  });
  const Numbers saved = bench.joined();
  // Frozen and complex parameters and step counters are not double.
  const auto is_double = [](const auto& each) { return each.second.scalar_type() == at::kDouble; };
  CHECK(2 * std::ranges::count_if(saved, is_double) > static_cast<int64_t>(saved.size()));
  const auto load = [&](Trained& trained, state::SavedStatesFolder&) {
    trained.saved().load(state::SavedStatesFolder(bench.run(3)), {});
  };
  for (const int ranks : {2, 3, 4}) {
    bench.on(ranks, load);
    CHECK(difference(saved, bench.joined()) == "");
  }
  bench.settings.host_of = nullptr;
  bench.on(2, load);
  CHECK(difference(saved, bench.joined()) == "");
  bench.settings.dtype = {};
  bench.on(2, [&](Trained& trained, state::SavedStatesFolder&) {
    CHECK_THROWS_WITH_AS(trained.saved().load(state::SavedStatesFolder(bench.run(3)), {}), doctest::Contains("is F64["),
                         UsageError);
  });
}

TEST_CASE("a state of another model is rejected on any number of ranks with shapes of whole tensors") {
  Bench bench;
  bench.on(2, [](Trained& trained, state::SavedStatesFolder& folder) { trained.save(folder, 1); });
  Bench other;
  DecoderSizes wider = kSizes;
  wider.mlp = 48;
  other.training = ShardedTraining(wider, make_odd);
  for (const int ranks : {1, 3})
    other.on(ranks, [&](Trained& trained, state::SavedStatesFolder&) {
      CHECK_THROWS_WITH_AS(trained.saved().load(state::SavedStatesFolder(bench.run(2)), {}),
                           doctest::Contains("F32[40,24] there and F32[48,24] here"), UsageError);
    });
  Bench turned;
  turned.training = ShardedTraining(kSizes, [](program::Program& program) {
    make_odd(program);
    at::Tensor& straight = program.state.parameters.at(3).second;
    straight.set_data(straight.detach().contiguous());
  });
  turned.on(1, [&](Trained& trained, state::SavedStatesFolder&) {
    CHECK_THROWS_WITH_AS(trained.saved().load(state::SavedStatesFolder(bench.run(2)), {}),
                         doctest::Contains("lies in memory in another order"), UsageError);
  });
}

}  // namespace
}  // namespace memtune::tests::sharded_state_test
