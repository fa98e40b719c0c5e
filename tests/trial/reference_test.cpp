// Users trust a strategy because its gradients equal the baseline's bit for bit. A comparison that reports equality too
// easily would make every other check worthless.
#include "core/measure/trial/reference.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "core/base/error.h"
#include "tests/support/run_program.h"
namespace memtune::trial::reference_test {
namespace {

namespace fs = std::filesystem;

struct Folder : test::ScratchFolder {
  fs::path file = path / "reference.bin";
};

at::Tensor with_gradient(const at::Tensor& gradient) {
  at::Tensor parameter = at::zeros_like(gradient).requires_grad_();
  parameter.mutable_grad() = gradient.clone();
  return parameter;
}

NamedParameters model() {
  at::Tensor frozen = at::zeros({2}).requires_grad_();
  return {{"a", with_gradient(at::arange(6).to(at::kFloat).view({2, 3}))},
          {"frozen", frozen},
          {"b", with_gradient(at::arange(4).to(at::kBFloat16))}};
}

struct Run {
  double loss;
  NamedParameters parameters;
};

// Writes the reference of a baseline with these repetitions of its first run.
result::GradientComparison write_reference(const fs::path& path, const Run& first,
                                           const std::vector<Run>& repetitions) {
  ReferenceGradientFileWriter writer(path, "none", first.loss, first.parameters);
  for (const Run& run : repetitions) writer.repeat(run.loss, run.parameters);
  writer.finish();
  return writer.noise();
}

// Writes the reference of a deterministic baseline.
void write_reference(const fs::path& path, const std::string& strategy, double loss,
                     const NamedParameters& parameters) {
  ReferenceGradientFileWriter writer(path, strategy, loss, parameters);
  writer.repeat(loss, parameters);
  writer.finish();
}

result::GradientComparison compare(const fs::path& path, double loss, const NamedParameters& parameters) {
  return compare_with_reference(path, loss, parameters).gradients;
}

TEST_CASE("equal bits compare as equal") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  auto result = compare(folder.file, 0.1, model());
  CHECK(result.compared);
  CHECK(result.equal);
  CHECK(result.max_abs_difference == 0);
  CHECK(result.worst == "");
  CHECK(result.against == "none");
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);  // no temporary file left
}

TEST_CASE("the largest difference is reported with its parameter") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  auto other = model();
  other[0].second.mutable_grad()[1][1] += 0.25;
  other[2].second.mutable_grad()[3] += 0.5;
  auto result = compare(folder.file, 0.1, other);
  CHECK_FALSE(result.equal);
  CHECK(result.max_abs_difference == 0.5);
  CHECK(result.worst == "b");
}

TEST_CASE("a loss that differs by one bit is a difference") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  auto result = compare(folder.file, std::nextafter(0.1, 1.0), model());
  CHECK_FALSE(result.equal);
  CHECK(result.worst == "loss");
  CHECK(result.max_abs_difference == std::nextafter(0.1, 1.0) - 0.1);
}

TEST_CASE("zeros of different sign are unequal though their difference is zero") {
  Folder folder;
  auto other = model();
  write_reference(folder.file, "none", 0.1, other);
  other[0].second.mutable_grad()[0][0] = -0.0;
  auto result = compare(folder.file, 0.1, other);
  CHECK_FALSE(result.equal);
  CHECK(result.max_abs_difference == 0);
  CHECK(result.worst == "a");
}

TEST_CASE("a NaN that the baseline does not have counts as the largest possible difference") {
  Folder folder;
  auto other = model();
  write_reference(folder.file, "none", 0.1, other);
  other[2].second.mutable_grad()[1] = NAN;
  auto result = compare(folder.file, 0.1, other);
  CHECK_FALSE(result.equal);
  CHECK(result.max_abs_difference == std::numeric_limits<double>::max());
}

TEST_CASE("a gradient that only one of the two runs has is a difference") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  auto more = model(), less = model();
  more[1].second.mutable_grad() = at::full({2}, 0.125);
  CHECK(compare(folder.file, 0.1, more).worst == "frozen");
  CHECK(compare(folder.file, 0.1, more).max_abs_difference == 0.125);
  less[0].second.mutable_grad().reset();
  CHECK_FALSE(compare(folder.file, 0.1, less).equal);
  CHECK(compare(folder.file, 0.1, less).max_abs_difference == 5);
}

TEST_CASE("the memory layout of a gradient does not matter") {
  Folder folder;
  NamedParameters plain = {{"w", with_gradient(at::arange(6).to(at::kFloat).view({2, 3}))}};
  write_reference(folder.file, "none", 1, plain);
  plain[0].second.mutable_grad() = plain[0].second.grad().t().contiguous().t();
  CHECK(compare(folder.file, 1, plain).equal);
}

TEST_CASE("a zero tensor without storage equals a gradient of zeros") {
  Folder folder;
  NamedParameters zeros = {{"w", with_gradient(at::zeros({3}))}};
  NamedParameters without = {{"w", with_gradient(at::zeros({3}))}};
  without[0].second.mutable_grad() = at::_efficientzerotensor({3});
  write_reference(folder.file, "none", 1, without);
  CHECK(compare(folder.file, 1, zeros).equal);
  CHECK(compare(folder.file, 1, without).equal);
}

TEST_CASE("complex gradients also compare imaginary parts and lazy conjugates are resolved") {
  Folder folder;
  const auto with = [](double imaginary) {
    const at::Tensor gradient = at::complex(at::ones({2}), at::full({2}, imaginary));
    return NamedParameters{{"w", with_gradient(gradient)}};
  };
  write_reference(folder.file, "none", 1, with(2));
  CHECK(compare(folder.file, 1, with(2)).equal);
  CHECK(compare(folder.file, 1, with(2.5)).max_abs_difference == 0.5);
  NamedParameters conjugate = with(0);
  conjugate[0].second.mutable_grad() = at::conj(at::complex(at::ones({2}), at::full({2}, -2.0)));
  CHECK(compare(folder.file, 1, conjugate).equal);
}

TEST_CASE("a sparse gradient is compared by its elements") {
  Folder folder;
  NamedParameters dense = model(), sparse = model();
  sparse[0].second.mutable_grad() = sparse[0].second.grad().to_sparse();
  write_reference(folder.file, "none", 1, sparse);
  CHECK(compare(folder.file, 1, dense).equal);
}

TEST_CASE("a model without parameters is compared by its loss") {
  Folder folder;
  write_reference(folder.file, "none", NAN, {});
  CHECK(compare(folder.file, NAN, {}).equal);
  CHECK_FALSE(compare(folder.file, 1, {}).equal);
}

std::string refusal(const fs::path& file, const NamedParameters& parameters) {
  try {
    compare(file, 0.1, parameters);
  } catch (const UsageError& error) {
    std::string text = error.what(), start = "'" + file.string() + "' is ",
                end = "; remove it and run the baseline again";
    REQUIRE(text.size() > start.size() + end.size());
    return text.substr(start.size(), text.size() - start.size() - end.size());
  }
  return "no error";
}

TEST_CASE("the reference of another model is rejected") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  auto fewer = model();
  fewer.pop_back();
  CHECK(refusal(folder.file, fewer) == "of another model: it has 3 parameters, this one has 2");
  auto renamed = model();
  renamed[2].first = "c";
  CHECK(refusal(folder.file, renamed) == "of another model: it has 'b' where this one has 'c'");
}

TEST_CASE("a truncated file and a file of another format are rejected") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  std::ifstream file(folder.file, std::ios::binary);
  std::string whole{std::istreambuf_iterator<char>(file), {}};
  auto write = [&](const std::string& content) { std::ofstream(folder.file, std::ios::binary) << content; };
  write("");
  CHECK(refusal(folder.file, model()) == "no reference file");
  write("hello, this is text");
  CHECK(refusal(folder.file, model()) == "no reference file");
  for (size_t size = plan::kFirstGradient; size < whole.size(); size += 9) {
    write(whole.substr(0, size));
    CHECK(refusal(folder.file, model()) != "no error");
  }
}

TEST_CASE("a pipe in place of the reference or its temporary file does not block") {
  Folder folder;
  const fs::path aside = folder.file.string() + ".tmp." + std::to_string(::getpid());
  for (const fs::path& pipe : {folder.file, aside}) REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(compare(folder.file, 0.1, model()), doctest::Contains("it is a pipe"), IoError);
  CHECK_FALSE(plan::is_whole_reference(folder.file));
  write_reference(folder.file, "none", 0.1, model());
  CHECK(compare(folder.file, 0.1, model()).equal);
}

void flip(const fs::path& path, uint64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 4));
}

TEST_CASE("a flipped bit anywhere in the reference file is detected") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  CHECK(plan::is_whole_reference(folder.file));
  const uint64_t size = fs::file_size(folder.file);
  NamedParameters other = model();
  for (size_t i : {size_t{0}, size_t{2}}) other[i].second.mutable_grad() += 1;  // forces a read of the file's gradients
  for (uint64_t at = 0; at < size; ++at) {
    flip(folder.file, at);
    CAPTURE(at);
    CHECK_FALSE(plan::is_whole_reference(folder.file));
    CHECK(refusal(folder.file, other) != "no error");
    flip(folder.file, at);
  }
  CHECK(plan::is_whole_reference(folder.file));
}

TEST_CASE("a reference of a later version is rejected with its version number") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, model());
  std::fstream(folder.file, std::ios::binary | std::ios::in | std::ios::out).seekp(7).put('5');
  CHECK(refusal(folder.file, model()) == "a reference file of version 5, and this memtune reads version 4");
}

// An embedding with gradients from 0 to 9.99, a norm with gradient 1e-5 and a scalar.
NamedParameters noisy_model(double embedding = 0, double norm = 0, double scale = 0) {
  at::Tensor large = at::arange(1000).to(at::kDouble) / 100;
  large[500] += embedding;
  return {{"embedding", with_gradient(large)},
          {"norm", with_gradient(at::full({8}, 1e-5 + norm, at::kDouble))},
          {"scale", with_gradient(at::full({}, 1 + scale, at::kDouble))}};
}

TEST_CASE("a lost small gradient is found next to a noisy large one") {
  Folder folder;
  write_reference(folder.file, {0.1, noisy_model()}, {{0.1, noisy_model(1e-4)}});
  const ReferenceGradientComparisonResult fine = compare_with_reference(folder.file, 0.1, noisy_model(-1.5e-4));
  CHECK_FALSE(fine.gradients.equal);
  CHECK(fine.worst.where == "");
  const ReferenceGradientComparisonResult lost = compare_with_reference(folder.file, 0.1, noisy_model(-1.5e-4, -1e-5));
  CHECK(lost.gradients.worst == "embedding");  // still the largest difference
  CHECK(lost.worst.where == "norm");
  CHECK(lost.worst.difference == doctest::Approx(1e-5));
}

TEST_CASE("a parameter may differ by at most twice the difference between two baseline runs") {
  Folder folder;
  write_reference(folder.file, {0.1, noisy_model()}, {{0.1, noisy_model(1e-4)}});
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(1.99e-4)).worst.where == "");
  const ExcessiveGradientDeviation beyond = compare_with_reference(folder.file, 0.1, noisy_model(2.01e-4)).worst;
  CHECK(beyond.where == "embedding");
  CHECK(beyond.difference == doctest::Approx(2.01e-4));
  CHECK(beyond.allowed == doctest::Approx(2e-4));
}

TEST_CASE("a parameter without noise of its own gets the relative noise of the others") {
  Folder folder;
  write_reference(folder.file, {0.1, noisy_model()}, {{0.1, noisy_model(9.99e-4)}});  // a relative noise of 1e-4
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(0, 0, 1.9e-4)).worst.where == "");
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(0, 0, 2.1e-4)).worst.where == "scale");
  CHECK(compare_with_reference(folder.file, 0.1 + 1e-6, noisy_model()).worst.where == "");
  CHECK(compare_with_reference(folder.file, 0.2, noisy_model()).worst.where == "loss");
}

TEST_CASE("the noise is the largest difference of all repetitions") {
  Folder folder;
  const result::GradientComparison noise = write_reference(
      folder.file, {0.1, noisy_model()}, {{0.1, noisy_model(4e-4)}, {0.1, noisy_model(1e-4)}, {0.1, noisy_model()}});
  CHECK(noise.max_abs_difference == doctest::Approx(4e-4));
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(7.9e-4)).worst.where == "");
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(8.1e-4)).worst.where == "embedding");
}

TEST_CASE("a baseline run with NaN allows no difference") {
  Folder folder;
  write_reference(folder.file, {0.1, noisy_model()}, {{0.1, noisy_model(NAN)}});
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(1e-4)).worst.where == "embedding");
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(0, 1e-4)).worst.where == "norm");
}

TEST_CASE("a deterministic baseline allows no difference at all") {
  Folder folder;
  write_reference(folder.file, "none", 0.1, noisy_model());
  CHECK(compare_with_reference(folder.file, 0.1, noisy_model(0, 0, 1e-15)).worst.where == "scale");
}

TEST_CASE("the file stores the noise of every parameter and of the loss") {
  Folder folder;
  const result::GradientComparison own =
      write_reference(folder.file, {0.5, noisy_model()}, {{0.75, noisy_model(0.25)}});
  CHECK(own.max_abs_difference == 0.25);
  CHECK_FALSE(own.equal);
  const plan::ReferenceGradientFileIndex reference = plan::read_reference(folder.file);
  CHECK(reference.loss_noise == 0.25);
  CHECK(reference.gradients[0].noise == doctest::Approx(0.25));
  CHECK(reference.gradients[1].noise == 0);
}

TEST_CASE("a reference of hashes alone tells equal bits from others, and no size of a difference") {
  Folder folder;
  ReferenceGradientFileWriter writer(folder.file, "none", 0.1, model(), ReferenceHashesOrGradients::hashes);
  writer.repeat(0.1, model());
  CHECK(writer.noise().equal);
  writer.finish();
  CHECK(plan::is_whole_reference(folder.file));
  CHECK(compare(folder.file, 0.1, model()).equal);
  NamedParameters more = model(), less = model(), other = model();
  more[1].second.mutable_grad() = at::full({2}, 0.125);
  less[0].second.mutable_grad().reset();
  other[2].second.mutable_grad()[3] += 0.5;
  for (const auto& [parameters, worst] : {std::pair(more, "frozen"), {less, "a"}, {other, "b"}}) {
    const ReferenceGradientComparisonResult found = compare_with_reference(folder.file, 0.1, parameters);
    CHECK_FALSE(found.gradients.equal);
    CHECK(found.gradients.worst == worst);
    CHECK_FALSE(found.has_size);
  }
  ReferenceGradientFileWriter noisy(folder.file, "none", 0.1, model(), ReferenceHashesOrGradients::hashes);
  noisy.repeat(0.1, other);
  CHECK_FALSE(noisy.noise().equal);
}

TEST_CASE("an unfinished reference leaves no file") {
  Folder folder;
  { const ReferenceGradientFileWriter begun(folder.file, "none", 0.1, model()); }
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a full disk is an error and leaves no reference") {
  Folder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const sighandler_t handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{16, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  CHECK_THROWS_AS(ReferenceGradientFileWriter(folder.file, "none", 0.1, model()), IoError);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a folder that does not exist is an error") {
  CHECK_THROWS_AS(write_reference("/no/such/folder/reference", "none", 0.1, model()), IoError);
}

}  // namespace
}  // namespace memtune::trial::reference_test
