import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DiskRecord, folderOf } from './recorded-disk.ts'

/** What a disk may write as a whole: https://sqlite.org/atomiccommit.html#_hardware_assumptions asks for no more. */
const SECTOR_BYTES = 512

/** A disk that remembers what was asked of it and promises only what was synced. */
export interface UnreliableDisk {
  apply(record: DiskRecord): void
  /**
   * Makes in an empty folder what may be found if the power is lost now.
   *
   * Of a file: everything before its last sync, and of the writes and truncates since then any, each write whole or
   * some of its sectors. Of a folder: the names that were made and removed in it before its own last sync, and of
   * those since then the first few, because file systems keep their order. That is all that POSIX promises, and less
   * than a file system with a journal does.
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
  /** `undefined` where the name was removed. */
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
      // In this order a folder comes before what is in it.
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
  // None and all of what is pending are the likeliest in fact, and among random choices would hardly ever come.
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

/** What is added is zero, as is what was cut off before. */
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
