import { Client, types } from 'pg'

/** Runs one SQL statement on a connection of its own. */
export function queryPostgres(url: string, text: string): Promise<Record<string, unknown>[]> {
  return withPostgres(url, async client => (await client.query(text)).rows)
}

/** Connects for the time of `work`. */
export async function withPostgres<T>(
  url: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = await connectToPostgres(url)
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** A connection that the caller ends. */
export async function connectToPostgres(url: string): Promise<Client> {
  const client = new Client({ connectionString: url, types: { getTypeParser } })
  // A lost connection shows in the next query.
  client.on('error', () => {})
  await client.connect()
  return client
}

/** `bigint` as a number, as SQLite has it. */
const getTypeParser: typeof types.getTypeParser = (oid, format) =>
  oid === types.builtins.INT8 ? Number : types.getTypeParser(oid, format)
