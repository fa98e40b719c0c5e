// The first line of an exception's message, without the C++ stack that LibTorch adds. An empty message, as
// TorchScript's often is, gives "no reason given".
#pragma once

#include <exception>
#include <string>

namespace memtune::program {

std::string first_line(const std::exception& error);

}  // namespace memtune::program
