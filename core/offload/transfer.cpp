#include "core/offload/transfer.h"

#include "core/offload/offload.h"

namespace memtune::offload {

Transfer::Transfer(Offload& offload, const value::Value& value, int group, size_t number)
    : offload_(offload),
      key_(value.key()),
      bytes_(value.size_bytes()),
      piece_bytes_(value.place() == config::Place::disk ? kDiskPieceBytes : bytes_),
      on_disk_(value.place() == config::Place::disk),
      group_(group),
      number_(number) {}

Transfer::~Transfer() { offload_.forget(*this); }

at::Storage Transfer::bring_back() { return offload_.bring_back(*this); }

void Transfer::before_overwrite() { offload_.before_overwrite(*this); }

}  // namespace memtune::offload
