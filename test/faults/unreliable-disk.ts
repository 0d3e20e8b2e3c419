import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DiskRecord, folderOf } from './recorded-disk.ts'

/** A disk writes each sector completely or not at all: https://sqlite.org/atomiccommit.html#_hardware_assumptions */
const SECTOR_BYTES = 512

/** A disk that remembers all calls and promises only what was synced. */
export interface UnreliableDisk {
  apply(record: DiskRecord): void
  /**
   * Writes into an empty folder a state that is possible after a power cut now.
   *
   * For a file: everything before its last sync, and any of the later writes and truncates, each write complete or only
   * some of its sectors. For a folder: all names created and removed in it before its own last sync, and the first few
   * of the later ones, because file systems keep their order. POSIX promises only this, and a file system with a journal
   * promises more.
   */
  losePower(folder: string, random: () => number): void
}

interface File {
  readonly synced: Content
  readonly pending: DiskRecord[]
}

interface Content {
  bytes: Buffer
  size: number
}

interface NameChange {
  readonly path: string
  /** `undefined` if the name was removed. */
  readonly target: File | 'folder' | undefined
}

export function createUnreliableDisk(): UnreliableDisk {
  const names = new Map<string, File | 'folder'>([['', 'folder']])
  const syncedNames = new Map(names)
  const pendingNames = new Map<string, NameChange[]>()

  function rename(path: string, target: File | 'folder' | undefined): void {
    put(names, { path, target })
    const folder = folderOf(path)
    pendingNames.set(folder, [...(pendingNames.get(folder) ?? []), { path, target }])
  }

  function fileAt(path: string): File {
    const target = names.get(path)
    if (target === undefined || target === 'folder') throw new Error(`${path} is no file`)
    return target
  }

  function sync(path: string): void {
    if (names.get(path) === 'folder') {
      for (const change of pendingNames.get(path) ?? []) put(syncedNames, change)
      pendingNames.delete(path)
      return
    }
    const { synced, pending } = fileAt(path)
    for (const record of pending.splice(0)) change(synced, record)
  }

  return {
    apply: record => {
      const { kind, path } = record
      if (kind === 'create') rename(path, { synced: emptyContent(), pending: [] })
      else if (kind === 'mkdir') rename(path, 'folder')
      else if (kind === 'unlink') rename(path, undefined)
      else if (kind === 'sync') sync(path)
      else fileAt(path).pending.push(record)
    },
    losePower: (folder, random) => {
      const left = new Map(syncedNames)
      for (const changes of pendingNames.values()) {
        const count = Math.floor(random() * (changes.length + 1))
        for (const change of changes.slice(0, count)) put(left, change)
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

function put(names: Map<string, File | 'folder'>, { path, target }: NameChange): void {
  if (target === undefined) names.delete(path)
  else names.set(path, target)
}

function isReachable(path: string, names: ReadonlyMap<string, unknown>): boolean {
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
  const end = offset + data.length
  for (let at = offset; at < end; ) {
    const next = Math.min(end, at - (at % SECTOR_BYTES) + SECTOR_BYTES)
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

function emptyContent(): Content {
  return { bytes: Buffer.alloc(0), size: 0 }
}
