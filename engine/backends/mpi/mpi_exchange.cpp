// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/mpi/mpi_exchange.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>
#include <utility>

namespace tessera {
namespace {

// Counts are int in MPI 3: large messages are one element of a large type.
class Elements {
 public:
  explicit Elements(std::size_t bytes) : count_(static_cast<int>(bytes)) {
    constexpr std::size_t most = std::numeric_limits<int>::max();
    if (bytes <= most) return;
    constexpr std::size_t block = std::size_t{1} << 30;
    const int blocks = static_cast<int>(bytes / block);
    const int rest = static_cast<int>(bytes % block);
    MPI_Datatype big = MPI_BYTE;
    MPI_Type_contiguous(static_cast<int>(block), MPI_BYTE, &big);
    const std::array<int, 2> lengths{blocks, rest};
    const std::array<MPI_Aint, 2> places{0, static_cast<MPI_Aint>(block) * blocks};
    const std::array<MPI_Datatype, 2> types{big, MPI_BYTE};
    MPI_Type_create_struct(2, lengths.data(), places.data(), types.data(), &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&big);
    count_ = 1;
    owned_ = true;
  }
  ~Elements() {
    if (owned_) MPI_Type_free(&type_);  // when the last call that uses it is over
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
  bool owned_ = false;
};

}  // namespace

Status mpi_failure(int code, const std::string& call) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Status(Code::communication_error,
                fmt::format("{}: {}", call, std::string_view(text.data(), length)));
}

void MpiExchange::started(int code, const char* call, MPI_Request request) {
  if (code == MPI_SUCCESS) {
    requests_.push_back(request);
  } else if (failed_.ok()) {
    failed_ = mpi_failure(code, call);
  }
}

void MpiExchange::send(std::span<const std::byte> bytes, int to) {
  const Elements all(bytes.size());
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(bytes.data(), all.count(), all.type(), to, tag_, communicator_, &request);
  started(code, "MPI_Isend", request);
}

void MpiExchange::receive(std::span<std::byte> bytes, int from) {
  expected_.push_back({bytes, from});
}

Status MpiExchange::receive_what_came() {
  for (std::size_t i = 0; i < expected_.size();) {
    const Expected next = expected_[i];
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status envelope;
    int code = MPI_Improbe(next.from, tag_, communicator_, &there, &message, &envelope);
    if (code != MPI_SUCCESS) return mpi_failure(code, "MPI_Improbe");
    if (there == 0) {
      ++i;
      continue;
    }
    MPI_Count size = 0;
    MPI_Get_elements_x(&envelope, MPI_BYTE, &size);
    if (static_cast<std::size_t>(size) != next.bytes.size()) {
      return Status(Code::communication_error,
                    fmt::format("member {} of the group sends {} bytes instead of {}", next.from,
                                static_cast<std::int64_t>(size), next.bytes.size()));
    }
    const Elements all(next.bytes.size());
    MPI_Request request = MPI_REQUEST_NULL;
    code = MPI_Imrecv(next.bytes.data(), all.count(), all.type(), &message, &request);
    started(code, "MPI_Imrecv", request);
    expected_.erase(expected_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return failed_;
}

Result<bool> MpiExchange::test_messages() {
  TESSERA_TRY(receive_what_came());
  int done = 0;
  const int code =
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
  if (code != MPI_SUCCESS) return mpi_failure(code, "MPI_Testall");
  if (done == 0 || !expected_.empty()) return false;
  requests_.clear();
  return true;
}

Result<bool> MpiExchange::test() {
  for (;;) {
    TESSERA_TRY(failed_);
    auto done = test_messages();
    if (!done.ok()) failed_ = done.status();
    if (!done.ok() || !*done || !next_) return done;
    std::exchange(next_, nullptr)(*this);
  }
}

}  // namespace tessera
