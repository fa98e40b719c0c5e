#include "core/base/loss_implementation.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
namespace memtune::loss_implementation_test {
namespace {

using Kind = LossImplementation::Kind;

TEST_CASE("a loss implementation is plain or fused or chunked with a number of chunks") {
  CHECK((parse_loss_implementation("plain").kind == Kind::plain));
  CHECK((parse_loss_implementation("fused").kind == Kind::fused));
  const LossImplementation chunked = parse_loss_implementation("chunked=12");
  CHECK((chunked.kind == Kind::chunked));
  CHECK(chunked.chunks == 12);
  for (const char* wrong : {"", "chunked", "chunked=", "chunked=0", "chunked=08", "chunked=-1", "chunked=1.5",
                            "chunked=8 ", "chunked=1000000", "fused=8", "Plain"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_loss_implementation(wrong), UsageError);
  }
}

}  // namespace
}  // namespace memtune::loss_implementation_test
