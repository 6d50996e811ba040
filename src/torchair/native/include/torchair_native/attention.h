// Attention of few query rows over keys and values in memory, such as one decoding step over a KV cache.
//
// One unit of work is a batch element and a head of the keys, with all query heads that share it; keys and values are read once for
// all of them, in blocks, with a running maximum (online softmax). Sums are in float (double for double).
#pragma once

#include "math.h"
#include "matvec.h"
#include "program.h"

namespace tair {

// An operand: where its first element is, and its strides in elements (0: broadcast).
template <class T>
struct Operand {
  T* data;
  int64_t strides[4];
};

// T: float, double, bfloat16, float16. M: bool (true: attended) or a type of floats, which are added to the scores.
template <class T, class M>
struct Attention {
  int64_t batch, heads, key_heads;  // heads is a multiple of key_heads
  int64_t rows, length, depth;      // query rows of a head; keys; elements of a row (at most 512)
  Operand<const T> query;           // [batch, heads, rows, depth]
  Operand<const T> key, value;      // [batch, key_heads, length, depth]
  Operand<const M> mask;            // [batch, heads, rows, length]; data is nullptr where there is none
  Operand<T> out;                   // [batch, heads, rows, depth]
  double scale;                     // of the products of queries and keys
  bool causal;                      // row i attends to keys 0..i, as torch's is_causal
};

namespace detail {

constexpr int64_t attention_depth = 512;
constexpr int64_t attention_rows = 16;  // query rows at a time
constexpr int64_t attention_keys = 64;  // keys at a time

template <class A> constexpr A lowest = -A(__builtin_inf());

// What is added to a score: a mask of floats as it is, one of bools 0 or -inf.
template <class A, class M>
TAIR_INLINE A bias_of(M mask) {
  if constexpr (same<M, bool>) {
    return mask ? A(0) : lowest<A>;
  } else {
    return static_cast<A>(mask);
  }
}

// to[m][j] = sum over d of x[m][d] * w[j * stride + d * depth_stride], whichever of the two strides of w is 1.
template <class A, class X, class T>
TAIR_INLINE void strided_products(const X* x, int64_t ldx, int64_t m, const T* w, int64_t stride, int64_t depth_stride, int64_t depth,
                                  int64_t count, A* to, int64_t ldto) {
  if (stride == 1 && depth_stride != 1) {
    dot_columns<X, T, A>(x, ldx, m, w, depth_stride, depth, count, to, ldto);
  } else if (depth_stride == 1) {
    dot_rows<X, T, A>(x, ldx, m, w, stride, depth, count, to, ldto);
  } else {
    for (int64_t j = 0; j < count; ++j) {
      T copy[attention_depth];
      for (int64_t d = 0; d < depth; ++d) {
        copy[d] = w[j * stride + d * depth_stride];
      }
      dot_rows<X, T, A>(x, ldx, m, copy, depth, depth, 1, to + j, ldto);
    }
  }
}

// One batch element and head of the keys: `some` (at most attention_rows) of the query rows of all heads that share it, from `first` on.
template <class A, class T, class M>
TAIR_INLINE void attend(const Attention<T, M>& call, int64_t batch, int64_t key_head, int64_t first, int64_t some) {
  const int64_t group = call.heads / call.key_heads, depth = call.depth;
  const T* keys = call.key.data + batch * call.key.strides[0] + key_head * call.key.strides[1];
  const T* values = call.value.data + batch * call.value.strides[0] + key_head * call.value.strides[1];
  const int64_t* mask_strides = call.mask.strides;
  alignas(64) T queries[attention_rows * attention_depth];
  alignas(64) A totals[attention_rows * attention_depth];
  alignas(64) A parts[attention_rows * attention_depth];
  alignas(64) A scores[attention_rows * attention_keys];
  A most[attention_rows], weights[attention_rows];  // running maximum of the scores, sum of their powers relative to it
  int64_t reach[attention_rows];                    // how many keys a row attends to
  int64_t bias[attention_rows];                     // where its mask begins
  int64_t end = 0;
  for (int64_t i = 0; i < some; ++i) {
    const int64_t head = key_head * group + (first + i) / call.rows, row = (first + i) % call.rows;
    const int64_t* strides = call.query.strides;
    const T* from = call.query.data + batch * strides[0] + head * strides[1] + row * strides[2];
    for (int64_t d = 0; d < depth; ++d) {
      queries[i * depth + d] = from[d * strides[3]];
      totals[i * depth + d] = 0;
    }
    most[i] = lowest<A>;
    weights[i] = 0;
    reach[i] = call.causal && row + 1 < call.length ? row + 1 : call.length;
    bias[i] = batch * mask_strides[0] + head * mask_strides[1] + row * mask_strides[2];
    end = reach[i] > end ? reach[i] : end;
  }
  const A scale = static_cast<A>(call.scale);
  for (int64_t begin = 0; begin < end; begin += attention_keys) {
    const int64_t count = end - begin < attention_keys ? end - begin : attention_keys;
    const int64_t key_stride = call.key.strides[2], value_stride = call.value.strides[2];
    strided_products<A>(queries, depth, some, keys + begin * key_stride, key_stride, call.key.strides[3], depth, count, scores,
                        attention_keys);
    A factors[attention_rows];  // from powers relative to the old maximum to those relative to the new one
    for (int64_t i = 0; i < some; ++i) {
      A* score = scores + i * attention_keys;
      const int64_t rest = reach[i] - begin, own = rest < 0 ? 0 : rest < count ? rest : count;
      for (int64_t j = 0; j < own; ++j) {
        score[j] *= scale;
      }
      if (call.mask.data != nullptr) {
        const M* biases = call.mask.data + bias[i] + begin * mask_strides[3];
        for (int64_t j = 0; j < own; ++j) {
          score[j] += bias_of<A>(biases[j * mask_strides[3]]);
        }
      }
      A block_most = most[i];
      for (int64_t j = 0; j < own; ++j) {
        block_most = maximum(block_most, score[j]);
      }
      // While every key is masked out there is nothing to subtract: -inf - -inf is no number.
      const A shift = block_most == lowest<A> ? A(0) : block_most;
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < own; ++j) {
        const A power = exp(score[j] - shift);
        score[j] = power;
        sum += power;
      }
      for (int64_t j = own; j < count; ++j) {
        score[j] = 0;
      }
      factors[i] = exp(most[i] - shift);
      weights[i] = weights[i] * factors[i] + sum;
      most[i] = block_most;
    }
    strided_products<A>(scores, attention_keys, some, values + begin * value_stride, call.value.strides[3], value_stride, count, depth,
                        parts, depth);
    for (int64_t i = 0; i < some; ++i) {
      for (int64_t d = 0; d < depth; ++d) {
        totals[i * depth + d] = totals[i * depth + d] * factors[i] + parts[i * depth + d];
      }
    }
  }
  for (int64_t i = 0; i < some; ++i) {
    const int64_t head = key_head * group + (first + i) / call.rows, row = (first + i) % call.rows;
    const int64_t* strides = call.out.strides;
    T* to = call.out.data + batch * strides[0] + head * strides[1] + row * strides[2];
    // A row that attends to nothing is 0, as torch has it.
    const A inverse = weights[i] == 0 ? A(0) : A(1) / weights[i];
    for (int64_t d = 0; d < depth; ++d) {
      to[d * strides[3]] = cast<T>(totals[i * depth + d] * inverse);
    }
  }
}

}  // namespace detail

// This worker's share of an attention.
template <class T, class M, class A = opmath_t<T>>
TAIR_FUNCTION void attention(const Attention<T, M>& call, int64_t worker, int64_t workers) {
  if (call.heads == 0 || call.rows == 0) {
    return;
  }
  const int64_t rows = call.heads / call.key_heads * call.rows;
  const int64_t parts = (rows + detail::attention_rows - 1) / detail::attention_rows;
  const Range mine = share(call.batch * call.key_heads * parts, worker, workers);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t batch = unit / parts / call.key_heads, key_head = unit / parts % call.key_heads;
    const int64_t first = unit % parts * detail::attention_rows, rest = rows - first;
    detail::attend<A>(call, batch, key_head, first, rest < detail::attention_rows ? rest : detail::attention_rows);
  }
}

}  // namespace tair
