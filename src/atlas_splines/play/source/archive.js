/**
 * Archives: the container of a `.atlas` file, checked before anything in it is believed.
 *
 * docs/format.md describes it: a safetensors file whose metadata holds one JSON text.
 */

const ARCHIVE_FORMAT = "atlas-splines";
const ARCHIVE_VERSION = 9;
const MOST_HEADER_BYTES = 32 * 2 ** 20;
const MOST_FILE_BYTES = 256 * 2 ** 20; // a page shares the memory of its browser
const MOST_SPREAD_BYTES = 320 * 2 ** 20; // of tables that are written by their columns
const MOST_INFLATED_BYTES = 128 * 2 ** 20; // of tensors that are compressed
const TABLE_PARTS = ["cut", "level", "columns", "which"];
const MODEL_KINDS = ["model", "regressor", "classifier"];
const TENSOR_TYPES = {
  F32: Float32Array,
  F64: Float64Array,
  I32: Int32Array,
  I64: BigInt64Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
};

const PACKED_TYPES = { float32: "F32", float64: "F64", int32: "I32", int64: "I64" };

/** What is wrong with a file, or with a row, in one sentence for whoever gave it. */
export class FileError extends Error {}

/** An error as one sentence: whatever else goes wrong in a file that is whole, its parts do not fit together. */
export function asFileError(error) {
  if (error instanceof FileError) return error;
  return new FileError("The file is damaged: what it says of its model does not fit together.");
}

/**
 * Read a file and check that it is whole.
 *
 * @param {ArrayBuffer} buffer All bytes of the file.
 * @returns {Promise<{kind: string, version: number, header: object, tensors: Map, checksum: string}>}
 *     `checksum` is "right", or "not checked" where the browser has no SHA-256.
 */
export async function readArchive(buffer) {
  checkFileSize(buffer.byteLength);
  const start = 8 + headerLength(buffer);
  const head = new Uint8Array(buffer, 0, start);
  const entries = parsedJson(new TextDecoder().decode(head.subarray(8)));
  const envelope = readEnvelope(entries);
  const names = Object.keys(entries).filter((name) => name !== "__metadata__");
  const ends = names.map((name) => entries[name]?.data_offsets?.[1]).filter(Number.isInteger);
  const end = ends.reduce((most, each) => Math.max(most, each), 0);
  if (start + end !== buffer.byteLength) {
    const [wanted, found] = [start + end, buffer.byteLength].map((size) => size.toLocaleString("en"));
    throw new FileError(`The file is damaged: it should have ${wanted} bytes but has ${found}.`);
  }
  const checksum = await checkSeal(envelope.sha256, new Uint8Array(buffer), start);
  const tensors = new Map(names.map((name) => [name, readTensor(name, entries[name], buffer, start)]));
  await inflateTensors(tensors, envelope.packed ?? {});
  spreadTables(tensors);
  const { kind, version, header } = envelope;
  return { kind, version, header, tensors, checksum };
}

/** Put tensors in the place of their compressed bytes. */
async function inflateTensors(tensors, packed) {
  let room = MOST_INFLATED_BYTES;
  for (const [name, [dtype, shape]] of Object.entries(packed)) {
    const [type, given] = [PACKED_TYPES[dtype], tensors.get(name)];
    const width = TENSOR_TYPES[type]?.BYTES_PER_ELEMENT;
    const bytes = shape.reduce((product, size) => product * size, width);
    room -= bytes;
    if (given?.type !== "U8" || !(room >= 0)) {
      throw new FileError(`The file is damaged: its compressed tensor ${name} is missing or too large.`);
    }
    const body = await inflatedBytes(given.data, bytes);
    if (!body) throw new FileError(`The file is damaged: its compressed tensor ${name} cannot be read.`);
    tensors.set(name, { type, shape, data: new TENSOR_TYPES[type](fromPlanes(body, width).buffer) });
  }
}

/** So many bytes as they were before zlib compressed them; null if they are more or less. */
async function inflatedBytes(data, size) {
  if (!globalThis.DecompressionStream) throw new FileError("This browser cannot read compressed files; use a newer one.");
  const body = new Uint8Array(size);
  let filled = 0;
  try {
    const reader = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (filled + part.value.length > size) return null;
      body.set(part.value, filled);
      filled += part.value.length;
    }
  } catch {
    return null;
  }
  return filled === size ? body : null;
}

/** Numbers whose first bytes stand together, then their second bytes, and so on: byte by byte. */
function fromPlanes(body, width) {
  const count = body.length / width;
  const bytes = new Uint8Array(body.length);
  for (let plane = 0; plane < width; plane++) {
    for (let k = 0; k < count; k++) bytes[k * width + plane] = body[plane * count + k];
  }
  return bytes;
}

/** Put tables together that are written by their distinct columns, or as the same as another. */
function spreadTables(tensors) {
  let room = MOST_SPREAD_BYTES;
  for (const name of namesBefore(tensors, ".table", ".which")) {
    const [cut, level, columns, which] = TABLE_PARTS.map((part) => tensors.get(`${name}.${part}`));
    const sizes = cut?.type === "I64" ? Array.from(cut.data, Number) : [];
    const count = level?.data.length;
    const typed = which.type === "I32" && level?.type[0] === "F" && columns?.type === level.type;
    room -= sizes[0] * count * (level?.data.BYTES_PER_ELEMENT ?? 0);
    const blocks = Math.ceil(sizes[0] / sizes[2]);
    if (!typed || !(room >= 0) || which.shape[0] !== blocks || which.shape[1] !== count) {
      throw new FileError(`The file is damaged: the parts of its tensor ${name} do not fit together.`);
    }
    const data = spreadColumns(sizes, level.data, columns.data, which.data);
    for (const part of TABLE_PARTS) tensors.delete(`${name}.${part}`);
    tensors.set(name, { type: level.type, shape: [sizes[0], count], data });
  }
  for (const name of namesBefore(tensors, ".table", ".same")) {
    const other = tensors.get(new TextDecoder().decode(tensors.get(`${name}.same`).data));
    if (!other) throw new FileError(`The file is damaged: what its tensor ${name} is the same as is missing.`);
    tensors.delete(`${name}.same`);
    tensors.set(name, other);
  }
}

/** Names of tensors that have a part. */
function namesBefore(tensors, end, part) {
  const names = [...tensors.keys()].filter((name) => name.endsWith(end + part));
  return names.map((name) => name.slice(0, -part.length));
}

/** All numbers of a table, block of rows after block of rows. */
function spreadColumns([rows, flat, height], level, columns, which) {
  const count = level.length;
  const table = new columns.constructor(rows * count).fill(NaN); // a column that is missing is not finite
  let start = 0;
  for (let begin = 0, block = 0; begin < rows; begin += height, block += 1) {
    const tall = Math.min(height, rows - begin);
    const numbers = which.subarray(block * count, (block + 1) * count);
    numbers.forEach((number, channel) => {
      const own = columns.subarray(start + number * tall, start + (number + 1) * tall);
      own.forEach((value, row) => (table[(begin + row) * count + channel] = value));
    });
    start += (numbers.reduce((most, each) => Math.max(most, each), -1) + 1) * tall;
  }
  level.forEach((value, channel) => {
    for (let row = 0; value !== 0 && row < flat; row += 1) table[row * count + channel] = value;
  });
  return table;
}

/** Refuse a file that is too large for a page, by its size alone. */
export function checkFileSize(bytes) {
  if (bytes > MOST_FILE_BYTES) {
    const [size, most] = [bytes, MOST_FILE_BYTES].map((each) => Math.ceil(each / 2 ** 20).toLocaleString("en"));
    throw new FileError(`The file is too large: it has ${size} MB, and this page reads up to ${most} MB.`);
  }
}

/** A tensor of a shape and type, or a sentence. Null in the shape is any size. */
export function tensorOf(archive, name, type, shape) {
  const tensor = archive.tensors.get(name);
  const fits = tensor && tensor.type === type && tensor.shape.length === shape.length;
  if (!fits || shape.some((size, axis) => size !== null && size !== tensor.shape[axis])) {
    throw new FileError(`The file is damaged: its tensor ${name} is missing or has another shape.`);
  }
  if (type[0] === "F" && !tensor.data.every(Number.isFinite)) {
    throw new FileError(`The file is damaged: its tensor ${name} holds numbers that are not finite.`);
  }
  return tensor;
}

/** The numbers of a tensor, as `tensorOf`. */
export function numbersOf(archive, name, type, shape) {
  return tensorOf(archive, name, type, shape).data;
}

function headerLength(buffer) {
  const noModel = "This is not an atlas-splines file; choose one that save or the command atlas wrote.";
  if (buffer.byteLength < 10) throw new FileError(noModel);
  const view = new DataView(buffer);
  const length = view.getUint32(0, true);
  if (view.getUint32(4, true) !== 0 || view.getUint8(8) !== 0x7b || length < 2 || length > MOST_HEADER_BYTES) {
    throw new FileError(noModel);
  }
  if (8 + length > buffer.byteLength) throw new FileError("The file is damaged: it was cut off within its header.");
  return length;
}

function parsedJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new FileError("The file is damaged: its header is not JSON.");
  }
}

function readEnvelope(entries) {
  const text = entries?.__metadata__?.[ARCHIVE_FORMAT];
  if (typeof text !== "string") {
    throw new FileError("This is not an atlas-splines file; choose one that save or the command atlas wrote.");
  }
  const envelope = parsedJson(text);
  const { version, kind, header } = envelope ?? {};
  if (Number.isInteger(version) && version > ARCHIVE_VERSION) {
    throw new FileError(
      `The file was written by a newer atlas-splines (format ${version}); this page reads up to ${ARCHIVE_VERSION}.`,
    );
  }
  if (envelope?.format !== ARCHIVE_FORMAT || !(version >= 1) || typeof header !== "object" || header === null) {
    throw new FileError("The file is damaged: its header lacks fields.");
  }
  if (kind === "patch") throw new FileError("This is a patch, not a model; make a model of it with atlas apply.");
  if (!MODEL_KINDS.includes(kind)) throw new FileError("The file holds something that this page does not know.");
  return envelope;
}

function readTensor(name, entry, buffer, start) {
  const Numbers = TENSOR_TYPES[entry?.dtype];
  const { shape, data_offsets: offsets } = entry ?? {};
  const sizes = Array.isArray(shape) && shape.every((size) => Number.isInteger(size) && size >= 0);
  const count = sizes ? shape.reduce((product, size) => product * size, 1) : NaN;
  const width = entry?.dtype === "BOOL" ? 1 : Numbers?.BYTES_PER_ELEMENT;
  if (!Numbers || !(offsets?.[0] >= 0) || offsets[1] - offsets[0] !== count * width) {
    throw new FileError(`The file is damaged: its tensor ${name} does not fit its place.`);
  }
  // a copy: numbers need not begin at a multiple of their size
  return { type: entry.dtype, shape, data: new Numbers(buffer.slice(start + offsets[0], start + offsets[1])) };
}

/** Compare the SHA-256 of the whole file, with zeros where the digest itself stands. */
async function checkSeal(digest, bytes, start) {
  const wrong = "The file is damaged: its checksum is wrong, so some of its bytes have changed.";
  if (!/^[0-9a-f]{64}$/.test(digest ?? "")) throw new FileError(wrong);
  if (!globalThis.crypto?.subtle) return "not checked";
  const text = new TextDecoder("latin1").decode(bytes.subarray(0, start)); // a character for each byte
  const place = text.indexOf(digest);
  if (place < 0 || text.indexOf(digest, place + 1) >= 0) throw new FileError(wrong);
  const unsealed = bytes.slice();
  unsealed.fill(0x30, place, place + digest.length);
  const found = new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", unsealed));
  const hexadecimal = Array.from(found, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (hexadecimal !== digest) throw new FileError(wrong);
  return "right";
}
