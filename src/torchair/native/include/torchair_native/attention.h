// Attention of few query rows over keys and values in memory, such as one decoding step over a KV cache.
//
// One unit of work is a batch element and a head of the keys, with all query heads that share it; keys and values are read once for
// all of them, in blocks, with a running maximum (online softmax). Sums are in float (double for double).
#pragma once

#include "math.h"
#include "matvec.h"
#include "program.h"

namespace tair {

// Sizes and strides (in elements) of one attention. Masks have 0 as the stride of what they are broadcast over.
struct AttentionShape {
  int64_t batch, heads, key_heads;  // heads is a multiple of key_heads
  int64_t rows, length;             // query rows of a head; keys
  int64_t depth, value_depth;       // at most attention_depth
  int64_t query[4];                 // strides of [batch, heads, rows, depth]
  int64_t key[4];                   // of [batch, key_heads, length, depth]
  int64_t value[4];                 // of [batch, key_heads, length, value_depth]
  int64_t mask[4];                  // of [batch, heads, rows, length]
  int64_t out[4];                   // of [batch, heads, rows, value_depth]
  double scale;                     // of the products of queries and keys
  int32_t causal;                   // 1: row i attends to keys 0..i, as torch's is_causal
};

constexpr int64_t attention_depth = 512;

namespace detail {

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

// to[m][j] = x[m] . keys[j], whichever of the two axes of keys is contiguous.
template <class A, class T>
TAIR_INLINE void products_over_depth(const A* x, int64_t ldx, int64_t m, const T* keys, int64_t stride, int64_t depth_stride, int64_t depth,
                                     int64_t count, A* to, int64_t ldto) {
  if (depth_stride == 1 || depth <= 1) {
    dot_rows<A, T, A>(x, ldx, m, keys, stride, depth, count, to, ldto);
  } else if (stride == 1 || count <= 1) {
    dot_columns<A, T, A>(x, ldx, m, keys, depth_stride, depth, count, to, ldto);
  } else {
    for (int64_t j = 0; j < count; ++j) {
      A copy[attention_depth];
      for (int64_t d = 0; d < depth; ++d) {
        copy[d] = static_cast<A>(keys[j * stride + d * depth_stride]);
      }
      dot_rows<A, A, A>(x, ldx, m, copy, depth, depth, 1, to + j, ldto);
    }
  }
}

// to[m][d] = sum over j of x[m][j] * values[j][d].
template <class A, class T>
TAIR_INLINE void products_over_keys(const A* x, int64_t ldx, int64_t m, const T* values, int64_t stride, int64_t depth_stride, int64_t depth,
                                    int64_t count, A* to, int64_t ldto) {
  products_over_depth<A, T>(x, ldx, m, values, depth_stride, stride, count, depth, to, ldto);
}

// All heads of one unit, `some` (at most attention_rows) of its query rows from `first` on; rows are numbered over the unit's heads.
template <class T, class M, class A>
inline void attend(const T* query, const T* keys, const T* values, const M* mask, T* out, const AttentionShape& shape, int64_t batch,
                   int64_t key_head, int64_t first, int64_t some) {
  const int64_t group = shape.heads / shape.key_heads, depth = shape.depth, value_depth = shape.value_depth;
  alignas(64) A q[attention_rows * attention_depth];
  alignas(64) A total[attention_rows * attention_depth];
  alignas(64) A part[attention_rows * attention_depth];
  alignas(64) A scores[attention_rows * attention_keys];
  A most[attention_rows], weight[attention_rows];
  int64_t reach[attention_rows];  // how many keys a row attends to
  int64_t end = 0;
  for (int64_t i = 0; i < some; ++i) {
    const int64_t head = key_head * group + (first + i) / shape.rows, row = (first + i) % shape.rows;
    const T* from = query + batch * shape.query[0] + head * shape.query[1] + row * shape.query[2];
    for (int64_t d = 0; d < depth; ++d) {
      q[i * depth + d] = static_cast<A>(from[d * shape.query[3]]);
    }
    for (int64_t d = 0; d < value_depth; ++d) {
      total[i * value_depth + d] = 0;
    }
    most[i] = lowest<A>;
    weight[i] = 0;
    reach[i] = shape.causal && row + 1 < shape.length ? row + 1 : shape.length;
    end = reach[i] > end ? reach[i] : end;
  }
  const A scale = static_cast<A>(shape.scale);
  for (int64_t begin = 0; begin < end; begin += attention_keys) {
    const int64_t count = end - begin < attention_keys ? end - begin : attention_keys;
    products_over_depth<A, T>(q, depth, some, keys + begin * shape.key[2], shape.key[2], shape.key[3], depth, count, scores, attention_keys);
    A factors[attention_rows];
    for (int64_t i = 0; i < some; ++i) {
      A* score = scores + i * attention_keys;
      const int64_t head = key_head * group + (first + i) / shape.rows, row = (first + i) % shape.rows;
      const int64_t own = reach[i] - begin < 0 ? 0 : reach[i] - begin < count ? reach[i] - begin : count;
      A block_most = most[i];
      if (mask != nullptr) {
        const M* bias = mask + batch * shape.mask[0] + head * shape.mask[1] + row * shape.mask[2] + begin * shape.mask[3];
        for (int64_t j = 0; j < own; ++j) {
          score[j] = score[j] * scale + bias_of<A>(bias[j * shape.mask[3]]);
        }
      } else {
        for (int64_t j = 0; j < own; ++j) {
          score[j] *= scale;
        }
      }
      for (int64_t j = own; j < count; ++j) {
        score[j] = lowest<A>;
      }
      for (int64_t j = 0; j < own; ++j) {
        block_most = maximum(block_most, score[j]);
      }
      // As long as every key is masked out, there is nothing to subtract: -inf - -inf is no number.
      const A shift = block_most == lowest<A> ? A(0) : block_most;
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < count; ++j) {
        const A power = exp(score[j] - shift);
        score[j] = power;
        sum += power;
      }
      factors[i] = exp(most[i] - shift);
      weight[i] = weight[i] * factors[i] + sum;
      most[i] = block_most;
    }
    products_over_keys<A, T>(scores, attention_keys, some, values + begin * shape.value[2], shape.value[2], shape.value[3], value_depth, count, part,
                             value_depth);
    for (int64_t i = 0; i < some; ++i) {
      const A factor = factors[i];
      for (int64_t d = 0; d < value_depth; ++d) {
        total[i * value_depth + d] = total[i * value_depth + d] * factor + part[i * value_depth + d];
      }
    }
  }
  for (int64_t i = 0; i < some; ++i) {
    const int64_t head = key_head * group + (first + i) / shape.rows, row = (first + i) % shape.rows;
    T* to = out + batch * shape.out[0] + head * shape.out[1] + row * shape.out[2];
    // A row that attends to nothing is 0, as torch has it.
    const A inverse = weight[i] == 0 ? A(0) : A(1) / weight[i];
    for (int64_t d = 0; d < value_depth; ++d) {
      to[d * shape.out[3]] = cast<T>(total[i * value_depth + d] * inverse);
    }
  }
}

}  // namespace detail

// This worker's units of an attention. mask: nullptr, or bool (true: attended), or floats that are added to the scores.
template <class T, class M, class A = opmath_t<T>>
__attribute__((noinline)) void attention(const T* query, const T* keys, const T* values, const M* mask, T* out, const AttentionShape& shape,
                                         int64_t worker, int64_t workers) {
  if (shape.heads == 0 || shape.rows == 0) {
    return;
  }
  const int64_t rows = shape.heads / shape.key_heads * shape.rows;
  const int64_t parts = (rows + detail::attention_rows - 1) / detail::attention_rows;
  const Range mine = share(shape.batch * shape.key_heads * parts, worker, workers);
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const int64_t batch = unit / parts / shape.key_heads, key_head = unit / parts % shape.key_heads;
    const int64_t first = unit % parts * detail::attention_rows;
    const int64_t some = rows - first < detail::attention_rows ? rows - first : detail::attention_rows;
    detail::attend<T, M, A>(query, keys + batch * shape.key[0] + key_head * shape.key[1], values + batch * shape.value[0] + key_head * shape.value[1],
                            mask, out, shape, batch, key_head, first, some);
  }
}

}  // namespace tair
