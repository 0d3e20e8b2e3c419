import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { compileDisk } from '../support/failing-disk.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

const RECORD_BYTES = 32

/** A disk writes each sector completely or not at all: https://sqlite.org/atomiccommit.html#_hardware_assumptions */
const SECTOR_BYTES = 512

const KINDS = {
  ...{ c: 'create', d: 'mkdir', w: 'write', t: 'truncate', s: 'sync', u: 'unlink' },
  ...{ l: 'link', r: 'rename' },
} as const

/** One change of a file or folder by a process. */
export interface DiskRecord {
  readonly kind: (typeof KINDS)[keyof typeof KINDS]
  /** Relative to the recorded folder, which itself is ''. */
  readonly path: string
  /** For a write its place; for a truncate the new size. */
  readonly offset: number
  /** For a link and a rename the new path. */
  readonly data: Buffer
  /** The time after the call, by the clock of `process.hrtime`. */
  readonly endedAt: bigint
}

/** Variables of the environment that make a process record its changes below a folder, and what was recorded. */
export function recordDisk(folder: string) {
  const scratch = temporaryFolder()
  const file = join(scratch, 'records')
  return {
    env: {
      LD_PRELOAD: compileDisk(scratch),
      FAIL_DISK_FOLDER: realpathSync(folder),
      RECORD_FILE: file,
    },
    records: () => (existsSync(file) ? parse(readFileSync(file)) : []),
  }
}

function parse(bytes: Buffer): DiskRecord[] {
  const records: DiskRecord[] = []
  for (let at = 0; at < bytes.length; ) {
    const pathAt = at + RECORD_BYTES
    const dataAt = pathAt + bytes.readUInt32LE(at + 4)
    const end = dataAt + Number(bytes.readBigUInt64LE(at + 8))
    records.push({
      kind: KINDS[String.fromCharCode(bytes.readUInt32LE(at)) as keyof typeof KINDS],
      path: bytes.toString('utf8', pathAt, dataAt),
      offset: Number(bytes.readBigInt64LE(at + 16)),
      data: bytes.subarray(dataAt, end),
      endedAt: bytes.readBigInt64LE(at + 24),
    })
    at = end
  }
  return records
}

interface File {
  readonly synced: Content
  readonly pending: DiskRecord[]
}

/** The bytes behind `size` are room for more. */
interface Content {
  bytes: Buffer
  size: number
}

type Names = Map<string, File | 'folder'>

type NameChange = readonly [path: string, target: File | 'folder' | undefined]

/** A disk that remembers all calls and promises only what was synced. */
export function createUnreliableDisk() {
  const names: Names = new Map([['', 'folder']])
  const syncedNames: Names = new Map(names)
  /** Changes that a folder does together, such as both of a rename. */
  const pendingNames = new Map<string, (readonly NameChange[])[]>()

  function rename(...changes: readonly [NameChange, ...NameChange[]]): void {
    put(names, changes)
    const folder = folderOf(changes[0][0])
    pendingNames.set(folder, [...(pendingNames.get(folder) ?? []), changes])
  }

  function fileAt(path: string): File {
    const target = names.get(path)
    if (target === undefined || target === 'folder') throw new Error(`${path} is no file`)
    return target
  }

  function sync(path: string): void {
    if (names.get(path) === 'folder') {
      for (const changes of pendingNames.get(path) ?? []) put(syncedNames, changes)
      pendingNames.delete(path)
      return
    }
    const { synced, pending } = fileAt(path)
    for (const record of pending.splice(0)) change(synced, record)
  }

  return {
    apply: (record: DiskRecord): void => {
      const { kind, path, data } = record
      const empty = { bytes: Buffer.alloc(0), size: 0 }
      // The name in /proc of an open file that was deleted, such as one that SQLite sorts in. It leaves nothing behind.
      if (path.endsWith(' (deleted)')) return
      if (kind === 'create') rename([path, { synced: empty, pending: [] }])
      else if (kind === 'mkdir') rename([path, 'folder'])
      else if (kind === 'unlink') rename([path, undefined])
      else if (kind === 'link') rename([data.toString(), fileAt(path)])
      else if (kind === 'rename') rename([data.toString(), fileAt(path)], [path, undefined])
      else if (kind === 'sync') sync(path)
      else fileAt(path).pending.push(record)
    },
    /**
     * Writes into an empty folder a state that is possible after a power cut now. For a file: everything before its last
     * sync, and any of the later writes and truncates, each write complete or only some of its sectors. For a folder: all
     * names before its last sync, and the first few of the later changes, because file systems keep their order.
     */
    losePower: (folder: string, random: () => number): void => {
      const left: Names = new Map(syncedNames)
      for (const pending of pendingNames.values()) {
        const count = Math.floor(random() * (pending.length + 1))
        for (const changes of pending.slice(0, count)) put(left, changes)
      }
      // In this order a folder comes before its content.
      for (const path of [...left.keys()].sort()) {
        const target = left.get(path)
        if (target === undefined || !isReachable(path, left)) continue
        if (target === 'folder') mkdirSync(join(folder, path), { recursive: true })
        else writeFileSync(join(folder, path), whatIsLeft(target, random))
      }
    },
  }
}

function put(names: Names, changes: readonly NameChange[]): void {
  for (const [path, target] of changes) {
    if (target === undefined) names.delete(path)
    else names.set(path, target)
  }
}

function folderOf(path: string): string {
  return dirname(path).replace(/^\.$/, '')
}

function isReachable(path: string, names: Names): boolean {
  return path === '' || (names.has(folderOf(path)) && isReachable(folderOf(path), names))
}

function whatIsLeft({ synced, pending }: File, random: () => number): Buffer {
  const content = { bytes: Buffer.from(synced.bytes.subarray(0, synced.size)), size: synced.size }
  // In practice none or all of the pending writes are the most likely, but random choices would rarely give these.
  const share = [0, 1, random()][Math.floor(random() * 3)] as number
  for (const record of pending) {
    if (random() < share) change(content, record)
    else if (share > 0 && record.kind === 'write' && random() < 0.5) tear(content, record, random)
  }
  return content.bytes.subarray(0, content.size)
}

function tear(content: Content, { data, offset }: DiskRecord, random: () => number): void {
  for (let at = offset; at < offset + data.length; ) {
    const next = Math.min(offset + data.length, at - (at % SECTOR_BYTES) + SECTOR_BYTES)
    if (random() < 0.5) write(content, at, data.subarray(at - offset, next - offset))
    at = next
  }
}

function change(content: Content, { kind, offset, data }: DiskRecord): void {
  if (kind === 'write') write(content, offset, data)
  else resize(content, offset)
}

function write(content: Content, offset: number, data: Buffer): void {
  if (offset + data.length > content.size) resize(content, offset + data.length)
  data.copy(content.bytes, offset)
}

/** Added bytes are zero, also where a truncate cut off others before. */
function resize(content: Content, size: number): void {
  if (size > content.bytes.length) {
    const bytes = Buffer.alloc(Math.max(size, 2 * content.bytes.length))
    content.bytes.copy(bytes, 0, 0, content.size)
    content.bytes = bytes
  }
  content.bytes.fill(0, Math.min(size, content.size), Math.max(size, content.size))
  content.size = size
}
