// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/matmul.h"

#include <fmt/format.h>

#include <algorithm>

#ifdef TESSERA_DNNL
#include <dnnl.hpp>
#include <vector>
#endif

namespace tessera::kernels {

Matmuls::Matmuls(int places) : places_(std::max(places, 1)) {}

#ifdef TESSERA_DNNL

namespace {

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::bfloat16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool transposed,
                          std::int64_t stride) {
  if (stride == 0) stride = transposed ? rows : columns;
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, type_of(dtype), strides};
}

// oneDNN has no such product for processors without AVX-512, however small.
bool multiplies_bfloat16() {
  static const bool can = [] {
    try {
      const auto one = matrix(16, 16, DType::bfloat16, false, 0);
      const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
      return dnnl::matmul::primitive_desc(dnnl::matmul::desc(one, one, one), engine).get(true) !=
             nullptr;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return can;
}

}  // namespace

struct Matmul::Prepared {
  struct Place {
    dnnl::memory a, b, c, bias, scratch;
    std::vector<dnnl_exec_arg_t> arguments;
  };

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul primitive;
  Bytes scratch{};
  mutable std::vector<Place> places;

  void run(const void* a, const void* b, void* c, const float* bias, void* own_scratch,
           int place) const;

  Prepared(const MatmulShape& shape, int count) {
    const auto a = matrix(shape.m, shape.k, shape.input, shape.a_transposed, shape.a_stride);
    const auto b = matrix(shape.k, shape.n, shape.input, shape.b_transposed, shape.b_stride);
    const auto c = matrix(shape.m, shape.n, shape.output, false, shape.c_stride);
    const auto bias = matrix(1, shape.n, DType::float32, false, 0);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.add) {
      dnnl::post_ops after;
      after.append_sum(1.0F);
      attributes.set_post_ops(after);
    }
    const auto what = shape.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc chosen(what, attributes, engine);
    primitive = dnnl::matmul(chosen);
    const auto needed = chosen.scratchpad_desc();
    scratch = Bytes{static_cast<std::int64_t>(needed.get_size())};
    for (int k = 0; k < count; ++k) {
      Place place{{a, engine, nullptr}, {b, engine, nullptr}, {c, engine, nullptr}, {}, {}, {}};
      place.arguments = {{DNNL_ARG_SRC, place.a.get()},
                         {DNNL_ARG_WEIGHTS, place.b.get()},
                         {DNNL_ARG_DST, place.c.get()}};
      if (shape.bias) {
        place.bias = dnnl::memory(bias, engine, nullptr);
        place.arguments.push_back({DNNL_ARG_BIAS, place.bias.get()});
      }
      if (scratch > Bytes{0}) {
        place.scratch = dnnl::memory(needed, engine, nullptr);
        place.arguments.push_back({DNNL_ARG_SCRATCHPAD, place.scratch.get()});
      }
      places.push_back(std::move(place));
    }
  }
};

void Matmul::run(const void* a, const void* b, void* c, const float* bias, void* scratch,
                 int place) const {
  if (!widened_) return prepared_->run(a, b, c, bias, scratch, place);
  const Widened in = widened_->before(a, b, c, scratch);
  prepared_->run(in.a, in.b, in.c, bias, in.scratch, place);
  widened_->after(in, c);
}

void Matmul::Prepared::run(const void* a, const void* b, void* c, const float* bias,
                           void* own_scratch, int place) const {
  Place& own = places[static_cast<std::size_t>(place)];
  own.a.set_data_handle(const_cast<void*>(a));
  own.b.set_data_handle(const_cast<void*>(b));
  own.c.set_data_handle(c);
  if (own.bias) own.bias.set_data_handle(const_cast<float*>(bias));
  if (own.scratch) own.scratch.set_data_handle(own_scratch);
  const dnnl_status_t done = dnnl_primitive_execute(
      primitive.get(), stream.get(), static_cast<int>(own.arguments.size()), own.arguments.data());
  TESSERA_ASSERT(done == dnnl_success, "a prepared product of matrices runs");
}

Matmul Matmuls::made(const MatmulShape& shape, bool widened) {
  Matmul out;
  if (widened) out.widened_.emplace(shape);
  out.prepared_ =
      std::make_shared<const Matmul::Prepared>(widened ? out.widened_->product() : shape, places_);
  const Bytes besides = widened ? out.widened_->scratch() : Bytes{0};
  scratch_ = std::max(scratch_, besides + out.prepared_->scratch);
  return out;
}

Result<const Matmul*> Matmuls::prepare(const MatmulShape& shape) {
  const auto found = prepared_.find(shape);
  if (found != prepared_.end()) return &found->second;
  try {
    const bool widens = shape.fp8 != Fp8::none || shape.input == DType::float16 ||
                        (shape.input == DType::bfloat16 && !multiplies_bfloat16());
    return &prepared_.emplace(shape, made(shape, widens)).first->second;
  } catch (const dnnl::error& e) {
    return Status(Code::not_supported,
                  fmt::format("oneDNN cannot multiply {} x {} by {} x {} as {}: {}", shape.m,
                              shape.k, shape.k, shape.n, name_of(shape.input), e.what()));
  }
}

#else

struct Matmul::Prepared {};

void Matmul::run(const void*, const void*, void*, const float*, void*, int) const {
  TESSERA_ASSERT(false, "nothing was prepared");
}

Result<const Matmul*> Matmuls::prepare(const MatmulShape& shape) {
  return Status(Code::not_supported,
                fmt::format("a product of {} x {} and {} x {} needs oneDNN, without which this was "
                            "built: install libdnnl-dev and configure with -DTESSERA_DNNL=ON",
                            shape.m, shape.k, shape.k, shape.n));
}

#endif

}  // namespace tessera::kernels
