import { OperatorError } from '../../errors.ts'
import type { Format } from './format.ts'
import { notJson } from './json-records.ts'
import { createJsonSplitter, type RowsAt } from './json-splitter.ts'

/**
 * Where the rows are in JSON that begins with an object: in the only member that is an array of objects, or, if more objects
 * follow, at the top level. Throws `OperatorError` if that is not clear, with the option that makes it so.
 */
export async function findRows(
  chunks: AsyncIterable<Buffer>,
  { file, name: format }: { readonly file: string; readonly name: Format | undefined },
): Promise<RowsAt> {
  const splitter = createJsonSplitter('none')
  const fail = (problem: string) => new OperatorError([`${file} ${problem}`])
  for await (const chunk of chunks) {
    splitter.push(chunk)
    if (splitter.topValues() > 1) return 'top level'
    if (splitter.fault() !== undefined) break
  }
  splitter.end()
  const { ofObjects, empty } = splitter.found
  const members = ofObjects.filter(path => path.length === 1)
  const fault = splitter.fault()
  if (format !== 'json' && fault === undefined && ofObjects.length === 0) return 'top level'
  if (format === 'ndjson' && fault === undefined) {
    throw fail('is one object with arrays in it: add --format json to import one of them')
  }
  const [member, ...others] = members
  // After a fault, the rows before it are imported.
  if (member !== undefined && others.length === 0) return member
  if (fault !== undefined) throw notJson({ file }, fault)
  const [first, ...further] = members.length > 0 ? members : ofObjects
  if (first !== undefined) {
    const paths = [first, ...further].map(path => path.join('.'))
    const likely = paths.find(path => /users?$/i.test(path)) ?? paths[0]
    throw fail(
      `has arrays of objects at ${paths.join(', ')}: add --at PATH, such as --at ${likely}`,
    )
  }
  const emptyMember = empty.find(path => path.length === 1)
  if (emptyMember !== undefined) return emptyMember
  throw fail('is one object without an array of objects, so it has no rows')
}
